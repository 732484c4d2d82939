//! Finds cargo-deny, cargo-mutants and cargo-fuzz, or builds them from crates.io.

use anyhow::{Context as _, Result};

use super::step;
use crate::{terminal::print, workspace};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CargoTool {
    /// Name of the crate and of its program.
    pub name: &'static str,
    /// Release to build; any release of the same minor version is accepted.
    version: &'static str,
    /// Purpose, to complete "Building NAME, which ...".
    purpose: &'static str,
}

/// Checks licences, bans, sources and advisories of dependencies.
pub const DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
    purpose: "checks dependencies",
};
/// Changes the code in small ways and checks that a test fails.
pub const MUTANTS: CargoTool = CargoTool {
    name: "cargo-mutants",
    version: "27.1.0",
    purpose: "finds code that no test checks",
};

/// Searches for inputs that make a fuzz target panic.
pub const FUZZ: CargoTool = CargoTool {
    name: "cargo-fuzz",
    version: "0.13.2",
    purpose: "searches for inputs that break a fuzz target",
};

impl CargoTool {
    /// Name of the cargo subcommand.
    pub fn subcommand(self) -> &'static str {
        self.name.strip_prefix("cargo-").unwrap_or(self.name)
    }

    /// Version of the installed tool, if it runs and has the required minor version. The version is requested through
    /// cargo, because not every tool prints one when started directly.
    pub fn find(self) -> Option<String> {
        let mut cargo = workspace::cargo();
        let output = cargo.args([self.subcommand(), "--version"]).output().ok()?;
        self.parse(&String::from_utf8_lossy(&output.stdout))
            .map(str::to_owned)
    }

    /// Builds it unless it is installed. The build is not optimised, which saves minutes.
    ///
    /// # Errors
    /// If the build fails, or cargo does not find the built tool.
    pub fn ensure(self) -> Result<()> {
        let Self {
            name,
            version,
            purpose,
        } = self;
        if self.find().is_some() {
            return Ok(());
        }
        print(format!(
            "Building {name} {version}, which {purpose} (once; about 2 min)."
        ));
        let mut cargo = workspace::cargo();
        cargo.args([
            "install",
            name,
            "--version",
            version,
            "--locked",
            "--debug",
            "--force",
        ]);
        cargo.arg("--no-default-features");
        step::run(name, &mut cargo)?;
        self.find().map(drop).with_context(|| {
            format!("{name} is built, but cargo does not find it: is its folder (see its log) on PATH?")
        })
    }

    /// Parses `cargo-deny 0.20.2`; `None` for another minor version.
    fn parse(self, text: &str) -> Option<&str> {
        same_minor(text, self.version)
    }
}

/// Parses `NAME VERSION`; `None` if the minor version differs from that of `wanted`.
pub(super) fn same_minor<'a>(text: &'a str, wanted: &str) -> Option<&'a str> {
    let version = text.split_whitespace().nth(1)?;
    let (minor, _) = version.rsplit_once('.')?;
    (minor == wanted.rsplit_once('.')?.0).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_minor_version_is_accepted() {
        assert_eq!(DENY.parse("cargo-deny 0.20.9\n"), Some("0.20.9"));
        assert_eq!(DENY.parse("cargo-deny 0.19.2\n"), None);
        assert_eq!(DENY.parse(""), None);
    }
}
