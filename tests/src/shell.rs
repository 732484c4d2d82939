//! [`Shell`] runs commands of documentation pages as printed; [`Lines`] follows the output of a program.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::Command,
    sync::mpsc,
    time::timeout,
};
use xtask::setup::controlplane::{self, Component};

use crate::built::programs;

/// Limit for one line of a running command.
const LINE_WITHIN: Duration = Duration::from_secs(60);

/// A shell in a folder, which is also `$HOME`.
pub struct Shell {
    folder: PathBuf,
    setup: String,
}

impl Shell {
    /// A shell that runs `setup` first.
    pub fn new(folder: &Path, setup: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            setup: setup.to_owned(),
        }
    }

    /// A shell with kubectl, our plugin and a kubeconfig.
    pub async fn with_plugin(folder: &Path, kubeconfig: &Path) -> Self {
        let bin = folder.join("bin");
        fs::create_dir(&bin).expect("a folder");
        let kubectl = controlplane::ensure(&[Component::Kubectl]).expect("kubectl");
        let kubectl = kubectl.into_values().next().expect("the program asked for").path;
        symlink(kubectl, bin.join("kubectl")).expect("a link");
        symlink(programs().await.cli, bin.join("kubectl-headroom")).expect("a link");
        Self::new(folder, &format!("export PATH='{}':\"$PATH\"", bin.display()))
            .with_variables(&[("KUBECONFIG", &kubeconfig.display().to_string())])
    }

    #[must_use]
    pub fn with_variables(mut self, variables: &[(&str, &str)]) -> Self {
        for (name, value) in variables {
            write!(self.setup, "\nexport {name}='{value}'").expect("memory");
        }
        self
    }

    fn command(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .arg("-ec")
            .arg(format!("{}\n{command}", self.setup))
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        shell
    }

    /// Runs a command to its end.
    pub async fn run(&self, command: &str) -> Output {
        self.command(command).output().await.expect("start a shell")
    }

    /// Standard output of a command, which must succeed.
    pub async fn printed(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command until it prints a line that contains `text`, then ends it.
    pub async fn shows(&self, command: &str, text: &str) {
        // `exec` replaces the shell, so that the kill ends the program itself.
        let mut child = self
            .command(&format!("exec {command}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a shell");
        let mut lines = Lines::read(child.stdout.take().expect("output"));
        lines.until(|line| line.contains(text), LINE_WITHIN).await;
        child.kill().await.expect("end it");
    }
}

/// Output lines of a program, read continuously, so that the program never blocks.
pub struct Lines {
    lines: mpsc::UnboundedReceiver<String>,
    printed: Vec<String>,
}

impl Lines {
    pub fn read(output: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (line_tx, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                // The output is drained even if the receiver was dropped.
                line_tx.send(line).ok();
            }
        });
        Self {
            lines,
            printed: Vec::new(),
        }
    }

    /// Waits for the next line that satisfies the condition.
    pub async fn until(&mut self, is_meant: impl Fn(&str) -> bool + Send + Sync, within: Duration) -> String {
        let search = async {
            while let Some(line) = self.lines.recv().await {
                self.printed.push(line.clone());
                if is_meant(&line) {
                    return Some(line);
                }
            }
            None
        };
        let found = timeout(within, search).await.ok().flatten();
        found.unwrap_or_else(|| panic!("the line was not printed: {:#?}", self.printed))
    }

    pub fn printed(&self) -> &[String] {
        &self.printed
    }
}
