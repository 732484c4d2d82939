//! [`Environment`] is the file that a shell reads so that the README's commands, as printed, ask the demo's cluster.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use headroom_testbed::{Testbed, accounts, agent::write_secret, webhook::Webhook};
use xtask::controlplane::{self, Component};

/// The file's name in the cluster's folder.
const FILE: &str = "environment";

/// The file, and what it lacks.
pub(super) struct Environment {
    file: PathBuf,
    has_kubectl: bool,
}

impl Environment {
    /// Writes it, readable by its owner alone, with a token for the webhook that is good for hours, and a folder with
    /// kubectl, if there is one, and its plugin. The hollow node forwards no ports, so it says where the webhook listens.
    ///
    /// # Errors
    /// A token that the API server refuses, or a file that cannot be written.
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

    /// What to type in another terminal, on a line of its own that begins with two spaces.
    pub(super) fn invitation(&self) -> String {
        let (hours, file) = (
            accounts::TOKEN_SECONDS / 3600,
            quoted(&self.file.display().to_string()),
        );
        let lacking = if self.has_kubectl {
            ""
        } else {
            " There is no kubectl here: `cargo xtask demo --keep` builds it, or install one."
        };
        format!(
            "In another terminal, this sets a shell up for `kubectl` and `kubectl headroom`, for {hours} hours.{lacking}\n\
             \x20 . {file}"
        )
    }
}

fn link(program: &Path, folder: &Path) -> Result<()> {
    let name = program.file_name().context("a program without a name")?;
    symlink(program, folder.join(name)).with_context(|| format!("link to {}", program.display()))
}

/// Shell text that sets the variables, and puts a folder first on the path.
fn text(variables: &[(&str, &str)], bin: &Path) -> String {
    let lines = variables
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)));
    let path = quoted(&bin.display().to_string());
    lines.collect::<String>() + &format!("export PATH={path}:\"$PATH\"\n")
}

/// A word for a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_takes_the_text_whatever_the_paths_are() {
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
