// Starts `skillrun lsp` for the folders that are open, and shows what to do where that cannot be.

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

const FILES = "**/{workflows,skills,roles,config,tests}/**/*.{md,yaml}";
const HELP = "Install it with `pip install '.[editor]'` in a checkout of skillrun, or set `skillrun.command` to its path.";

let client;

/** The program and its arguments, as the settings have them. */
function command() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const words = vscode.workspace.getConfiguration("skillrun").get("command", ["skillrun", "lsp"]);
  return words.map((word) => word.replaceAll("${workspaceFolder}", folder));
}

async function start() {
  const [program, ...args] = command();
  const run = { command: program, args, transport: TransportKind.stdio };
  const documentSelector = [{ scheme: "file", pattern: FILES }];
  client = new LanguageClient("skillrun", "skillrun", { run, debug: run }, { documentSelector });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const settings = "Open the settings";
    const chosen = await vscode.window.showErrorMessage(`\`${[program, ...args].join(" ")}\` does not start. ${HELP}`, settings);
    if (chosen === settings) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "skillrun.command");
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("skillrun.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => change.affectsConfiguration("skillrun.command") && restart()),
  );
  return start();
}

module.exports = { activate, deactivate: stop };
