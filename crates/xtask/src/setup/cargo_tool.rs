//! Finds cargo-deny, cargo-mutants and cargo-fuzz, or builds them from crates.io.

use anyhow::{Context as _, Result};

use super::step;
use crate::{terminal::print, workspace};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CargoTool {
    /// The crate, and its program.
    pub name: &'static str,
    /// The release that is built; any of the same minor release will do.
    version: &'static str,
    /// What it does for us, as the end of "Building NAME, which ...".
    what: &'static str,
}

/// Checks licences, bans, sources and advisories of the dependency tree.
pub const DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
    what: "checks the dependency tree",
};
/// Changes the code in small ways and looks whether a test fails.
pub const MUTANTS: CargoTool = CargoTool {
    name: "cargo-mutants",
    version: "27.1.0",
    what: "finds rules that no test holds",
};

/// Looks for inputs that break a target.
pub const FUZZ: CargoTool = CargoTool {
    name: "cargo-fuzz",
    version: "0.13.2",
    what: "looks for inputs that break a target",
};

impl CargoTool {
    /// What cargo calls it.
    pub fn subcommand(self) -> &'static str {
        self.name.strip_prefix("cargo-").unwrap_or(self.name)
    }

    /// The version of the one that cargo finds, if it runs and is of the release we need. Started by itself, not every one
    /// says it.
    pub fn find(self) -> Option<String> {
        let mut cargo = workspace::cargo();
        let output = cargo.args([self.subcommand(), "--version"]).output().ok()?;
        self.parse(&String::from_utf8_lossy(&output.stdout))
            .map(str::to_owned)
    }

    /// Builds it unless it is there. Without optimisation: it runs for seconds, and would take minutes more to build.
    ///
    /// # Errors
    /// If the build fails.
    pub fn ensure(self) -> Result<()> {
        let Self { name, version, what } = self;
        if self.find().is_some() {
            return Ok(());
        }
        print(format!(
            "Building {name} {version}, which {what} (once; about 2 min)."
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

    /// The version in `cargo-deny 0.20.2`, if it will do.
    fn parse(self, text: &str) -> Option<&str> {
        same_minor(text, self.version)
    }
}

/// The version in `NAME VERSION`, if it is of the same minor release as the wanted one.
pub(super) fn same_minor<'a>(text: &'a str, wanted: &str) -> Option<&'a str> {
    let version = text.split_whitespace().nth(1)?;
    let (minor, _) = version.rsplit_once('.')?;
    (minor == wanted.rsplit_once('.')?.0).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_minor_release_will_do() {
        assert_eq!(DENY.parse("cargo-deny 0.20.9\n"), Some("0.20.9"));
        assert_eq!(DENY.parse("cargo-deny 0.19.2\n"), None);
        assert_eq!(DENY.parse(""), None);
    }
}
