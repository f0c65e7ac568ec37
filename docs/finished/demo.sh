#!/bin/sh
# The demo: plan a feature with recorded replies, show the report, then preview a re-run after one edit.
# Usage: sh demo.sh, with `skillrun` on the PATH. It works in a new temporary folder and changes nothing here.
set -eu
unset SKILLRUN_MODEL SKILLRUN_STORE

here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/skillrun-demo.XXXXXX")
cp -R "$here/config" "$here/shelf" "$here/request.md" "$here/replies.yaml" "$folder"
cd "$folder"

say() { printf '%s\n' "$@"; }
run() { say "\$ $1" && eval "$1"; }

say "Demo with recorded replies of a capable model: no key and no network needed. The rest runs for real." ""

say "1. Plan a feature for \`shelf\`, a small code base, in $folder:"
run 'skillrun plan "$(cat request.md)" --repo shelf --mode standard --unattended --script replies.yaml --name reminders --quiet'

say "" "2. Put the plan, its prompts and its replies on one page:"
open=
if [ -t 1 ] && [ -z "${CI:-}" ] && { [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ "$(uname)" = Darwin ]; }; then
    open=' --open'
fi
run "skillrun report reminders$open"

say "" "3. Edit one prompt, then preview a re-run:"
run 'skillrun eject skills/plan/completion.md > eject.log'
run "sed -i.bak '/^## first\$/a\\
Use at most 150 words.
' skills/plan/completion.md"
run 'skillrun resume reminders --script replies.yaml --preview'

say "" "The plan is $folder/runs/reminders/plan.md." \
    "To use the commands above: cd $folder && export PATH=\"$(dirname "$(command -v skillrun)"):\$PATH\"" \
    'For your own: skillrun plan "What you want" --repo PATH, with one of these models:' \
    "  a provider      export ANTHROPIC_API_KEY=…, or OPENAI_API_KEY, or GEMINI_API_KEY" \
    '  a local server  in config/models.yaml: providers: {local: {kind: openai, base_url: "http://localhost:11434/v1", key: ""}}' \
    '                                         tiers: {strong: "local:llama3", fast: "local:llama3"}' \
    "  no key at all   make demo MODEL=embedded (downloads about 90 MB; what so small a model writes is of no use)"
