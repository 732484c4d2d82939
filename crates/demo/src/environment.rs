//! [`Environment`]: a shell script that sets variables so that the README's commands work unchanged on the demo's cluster.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use headroom_testbed::{Testbed, accounts, agent::write_secret, webhook::Webhook};
use xtask::setup::controlplane::{self, Component};

/// File name in the cluster's folder.
const FILE: &str = "environment";

/// The script, and whether it provides kubectl.
pub(super) struct Environment {
    file: PathBuf,
    has_kubectl: bool,
}

impl Environment {
    /// Writes the script, readable only by its owner. It sets a token for the webhook that is valid for hours, and adds a
    /// folder to `PATH` with the kubectl plugin, and kubectl if it was found. The hollow node cannot forward ports, so the
    /// script sets the webhook's address.
    ///
    /// # Errors
    /// If the API server refuses the token, or a file cannot be written.
    pub(super) async fn create(testbed: &Testbed, webhook: &Webhook) -> Result<Self> {
        let folder = testbed.cluster.dir();
        let token = folder.join("debug.token");
        write_secret(&token, &accounts::debug_token(&testbed.client).await?)?;
        let bin = folder.join("bin");
        fs::create_dir(&bin).with_context(|| format!("make {}", bin.display()))?;
        link(&testbed.programs.cli, &bin)?;
        let kubectl = controlplane::find(Component::Kubectl)?;
        if let Some(kubectl) = &kubectl {
            link(&kubectl.path, &bin)?;
        }
        let file = folder.join(FILE);
        let text = text(
            &[
                ("KUBECONFIG", &testbed.cluster.kubeconfig().display().to_string()),
                ("HEADROOM_ADDR", &webhook.hints.to_string()),
                ("HEADROOM_CA_FILE", &webhook.ca.display().to_string()),
                ("HEADROOM_TOKEN_FILE", &token.display().to_string()),
            ],
            &bin,
        );
        write_secret(&file, &text)?;
        Ok(Self {
            file,
            has_kubectl: kubectl.is_some(),
        })
    }

    /// Instructions for another terminal. The command is in a line of its own, with two leading spaces.
    pub(super) fn instructions(&self) -> String {
        let (hours, file) = (
            accounts::TOKEN_SECONDS / 3600,
            quoted(&self.file.display().to_string()),
        );
        let hint = if self.has_kubectl {
            ""
        } else {
            " kubectl was not found: `cargo xtask demo --keep` builds it, or install it."
        };
        format!(
            "Run this in another terminal to use `kubectl` and `kubectl headroom` there for {hours} hours.{hint}\n\
             \x20 . {file}"
        )
    }
}

fn link(program: &Path, folder: &Path) -> Result<()> {
    let name = program.file_name().context("a program without a name")?;
    symlink(program, folder.join(name)).with_context(|| format!("link to {}", program.display()))
}

/// Shell script that sets the variables and prepends a folder to `PATH`.
fn text(variables: &[(&str, &str)], bin: &Path) -> String {
    let lines = variables
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)));
    let path = quoted(&bin.display().to_string());
    lines.collect::<String>() + &format!("export PATH={path}:\"$PATH\"\n")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn script_works_with_special_characters_in_paths() {
        let value = "/it's a \"folder\" with $HOME and `id`";
        let text = text(&[("HEADROOM_CA_FILE", value)], Path::new(value));
        let script = format!("{text}printf '%s\n' \"$HEADROOM_CA_FILE\" \"$PATH\"");
        let output = Command::new("sh")
            .args(["-ec", &script])
            .env("PATH", "/bin:/usr/bin")
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, format!("{value}\n{value}:/bin:/usr/bin\n"));
    }
}
