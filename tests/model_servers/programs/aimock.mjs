// Runs aimock: `aimock.mjs PORT`. It replies to a schema with its simplest value, and calls the first tool that it gets.
import { LLMock } from "@copilotkit/aimock";
const mock = new LLMock({ host: "127.0.0.1", port: Number(process.argv[2]) });
const example = (schema, root) => {
  if (schema.$ref) return example(schema.$ref.split("/").slice(1).reduce((part, key) => part[key], root), root);
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(schema.anyOf[0], root);
  switch ([schema.type].flat()[0]) {
    case "object": return Object.fromEntries((schema.required ?? []).map((key) => [key, example(schema.properties[key], root)]));
    case "array": return Array.from({ length: schema.minItems ?? 0 }, () => example(schema.items, root));
    case "integer": case "number": return schema.minimum ?? 1;
    case "boolean": return true;
    default: return "text";
  }
};
mock.on({ predicate: () => true }, (request) => {
  const schema = request.response_format?.json_schema?.schema;
  if (schema) return { content: JSON.stringify(example(schema, schema)) };
  const tool = request.tools?.[0]?.function;
  if (tool && request.messages.at(-1).role === "user") return { toolCalls: [{ name: tool.name, arguments: example(tool.parameters, tool.parameters) }] };
  return { content: "A text of the mock." };
});
await mock.start();
