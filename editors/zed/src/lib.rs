//! Starts `skillrun lsp`: the program that the settings name, or else the one on the PATH of the folder that is open.

use zed_extension_api::{self as zed, settings::LspSettings, LanguageServerId, Result, Worktree};

struct Skillrun;

impl zed::Extension for Skillrun {
    fn new() -> Self {
        Skillrun
    }

    fn language_server_command(&mut self, id: &LanguageServerId, worktree: &Worktree) -> Result<zed::Command> {
        let settings = LspSettings::for_worktree(id.as_ref(), worktree)?.binary;
        let (path, arguments) = settings.map_or((None, None), |binary| (binary.path, binary.arguments));
        let command = path.or_else(|| worktree.which("skillrun"));
        Ok(zed::Command {
            command: command.ok_or("skillrun is not on the PATH. In a checkout of skillrun: pip install '.[editor]'")?,
            args: arguments.unwrap_or_else(|| vec!["lsp".into()]),
            env: worktree.shell_env(),
        })
    }
}

zed::register_extension!(Skillrun);
