//! [`Shell`] runs commands of pages as they are printed; [`Lines`] follows what a program prints.

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

/// How long a line of a command that goes on may take.
const LINE_WITHIN: Duration = Duration::from_secs(60);

/// A shell in a folder, which is also the home of whoever types.
pub struct Shell {
    folder: PathBuf,
    setup: String,
}

impl Shell {
    /// A shell that has run that first.
    pub fn new(folder: &Path, setup: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            setup: setup.to_owned(),
        }
    }

    /// A shell that finds kubectl and our plugin, and asks the cluster of a kubeconfig.
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

    /// The same shell with these variables besides.
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

    /// What a command prints, which must succeed.
    pub async fn printed(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command until it prints a line with that text, and ends it then.
    pub async fn shows(&self, command: &str, text: &str) {
        // The shell becomes the program, so that this ends it.
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

/// The lines of a program, read as they come, so that it never waits for its reader.
pub struct Lines {
    lines: mpsc::UnboundedReceiver<String>,
    printed: Vec<String>,
}

impl Lines {
    /// Begins to read.
    pub fn read(output: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (line_tx, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                // Where nobody reads on, the program still has somewhere to print to.
                line_tx.send(line).ok();
            }
        });
        Self {
            lines,
            printed: Vec::new(),
        }
    }

    /// The next line that is meant.
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
        found.unwrap_or_else(|| panic!("the line did not come: {:#?}", self.printed))
    }

    /// What [`Self::until`] has passed.
    pub fn printed(&self) -> &[String] {
        &self.printed
    }
}
