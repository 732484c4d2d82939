//! The Rust toolchain that compiles the kernel programs: a nightly with the sources of `core`.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{
    bpf_linker,
    debian::{self, Package},
    step,
};
use crate::{terminal::say, workspace};

/// What the agent's build script reads to use another toolchain than `nightly`.
pub const VARIABLE: &str = "HEADROOM_BPF_TOOLCHAIN";
/// The toolchain it uses otherwise.
const NIGHTLY: &str = "nightly";
/// The nightly that is fetched: later ones may use an LLVM that bpf-linker cannot read.
const PINNED: &str = include_str!("../../nightly").trim_ascii();
/// The name Debian's compiler is given.
const DEBIAN: &str = "debian-web";
const DEBIAN_PACKAGES: [Package; 3] = [
    Package {
        name: "rustc-web",
        why: "compiles the kernel programs where rustup cannot fetch a nightly",
    },
    Package {
        name: "cargo-web",
        why: "drives that compiler",
    },
    Package {
        name: "rust-web-src",
        why: "the sources of core, compiled for the BPF target",
    },
];

/// A toolchain that compiles the kernel programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    name: String,
    llvm: u32,
}

/// What is known of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Usable(Toolchain),
    Absent,
    /// A component of it is missing.
    Lacks(&'static str),
    /// Its LLVM is newer than bpf-linker's.
    TooNew(u32),
}

impl Toolchain {
    /// The first usable one: what the environment names, `nightly`, the pinned nightly, Debian's.
    pub fn find() -> Option<Self> {
        let named = env::var(VARIABLE).ok();
        named
            .as_deref()
            .into_iter()
            .chain([NIGHTLY, PINNED, DEBIAN])
            .find_map(|name| match look(name) {
                Verdict::Usable(toolchain) => Some(toolchain),
                Verdict::Absent | Verdict::Lacks(_) | Verdict::TooNew(_) => None,
            })
    }

    /// Finds or gets one: completes `nightly`, else fetches the pinned nightly, else takes Debian's compiler.
    ///
    /// # Errors
    /// If none can be had; the message says how to get one.
    pub fn ensure() -> Result<Self> {
        if let Some(toolchain) = Self::find() {
            return Ok(toolchain);
        }
        workspace::on_path("rustup")
            .context("there is no rustup: see https://rustup.rs or install Debian's package rustup")?;
        fetch().or_else(|error| {
            say(format!(
                "rustup cannot fetch a nightly ({error:#}); taking Debian's compiler instead."
            ));
            debian::ensure(&DEBIAN_PACKAGES)?;
            step::run(
                "rustup-link",
                rustup().args(["toolchain", "link", DEBIAN, "/usr"]),
            )
        })?;
        Self::find().with_context(|| format!("none of {NIGHTLY}, {PINNED} and {DEBIAN} is usable after all"))
    }

    /// Its name, as rustup knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a cargo command build the kernel programs with it.
    pub fn apply(&self, cargo: &mut Command) {
        if self.name != NIGHTLY {
            cargo.env(VARIABLE, &self.name);
        }
    }

    /// What it is, for people.
    pub fn describe(&self) -> String {
        format!("{} (LLVM {})", self.name, self.llvm)
    }
}

fn fetch() -> Result<()> {
    if let Verdict::Lacks(component) = look(NIGHTLY) {
        let added = rustup_step(
            "rustup-component",
            &["component", "add", component, "rustfmt", "--toolchain", NIGHTLY],
        );
        if added.is_ok() && matches!(look(NIGHTLY), Verdict::Usable(_)) {
            return Ok(());
        }
    }
    if let Verdict::TooNew(llvm) = look(NIGHTLY) {
        say(format!(
            "`nightly` has LLVM {llvm}, which bpf-linker cannot read; {PINNED} is fetched beside it."
        ));
    }
    let components = ["--component", "rust-src", "--component", "rustfmt"];
    let install = ["toolchain", "install", PINNED, "--profile", "minimal"];
    rustup_step("rustup-nightly", &[install.as_slice(), &components].concat())
}

fn rustup_step(name: &str, arguments: &[&str]) -> Result<()> {
    step::run(name, rustup().args(arguments))
}

fn rustup() -> Command {
    Command::new("rustup")
}

fn look(name: &str) -> Verdict {
    let rustc = |arguments: &[&str]| {
        let output = rustup()
            .args(["run", name, "rustc"])
            .args(arguments)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(version) = rustc(&["-vV"]) else {
        return Verdict::Absent;
    };
    let Some(sysroot) = rustc(&["--print", "sysroot"]) else {
        return Verdict::Absent;
    };
    verdict(name, &version, &PathBuf::from(sysroot.trim()))
}

fn verdict(name: &str, version: &str, sysroot: &Path) -> Verdict {
    let Some(llvm) = llvm_of(version) else {
        return Verdict::Absent;
    };
    if llvm > bpf_linker::LLVM {
        Verdict::TooNew(llvm)
    } else if !sysroot
        .join("lib/rustlib/src/rust/library/core/Cargo.toml")
        .is_file()
    {
        Verdict::Lacks("rust-src")
    } else {
        Verdict::Usable(Toolchain {
            name: name.to_owned(),
            llvm,
        })
    }
}

/// The major release of LLVM in the output of `rustc -vV`.
fn llvm_of(version: &str) -> Option<u32> {
    version
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?
        .split('.')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysroot(has_sources: bool) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("folder");
        if has_sources {
            let core = folder.path().join("lib/rustlib/src/rust/library/core");
            std::fs::create_dir_all(&core).expect("folders");
            std::fs::write(core.join("Cargo.toml"), "").expect("file");
        }
        folder
    }

    #[test]
    fn a_toolchain_needs_readable_bitcode_and_the_sources() {
        let with = sysroot(true);
        let without = sysroot(false);
        let this = format!(
            "release: 1.97.0-nightly\nLLVM version: {}.1.4\n",
            bpf_linker::LLVM
        );
        let next = format!("LLVM version: {}.0.0\n", bpf_linker::LLVM + 1);
        let usable = Toolchain {
            name: "x".into(),
            llvm: bpf_linker::LLVM,
        };
        assert_eq!(verdict("x", &this, with.path()), Verdict::Usable(usable));
        assert_eq!(verdict("x", &this, without.path()), Verdict::Lacks("rust-src"));
        assert_eq!(
            verdict("x", &next, with.path()),
            Verdict::TooNew(bpf_linker::LLVM + 1)
        );
        assert_eq!(verdict("x", "rustc 1.97.0", with.path()), Verdict::Absent);
    }

    #[test]
    fn a_toolchain_nobody_installed_is_absent() {
        assert_eq!(look("headroom-never-installed"), Verdict::Absent);
    }

    #[test]
    fn the_pinned_nightly_is_a_dated_one() {
        assert!(
            PINNED
                .strip_prefix("nightly-")
                .is_some_and(|date| date.split('-').count() == 3),
            "{PINNED:?}"
        );
    }

    #[test]
    fn only_another_toolchain_than_nightly_is_told_to_the_build() {
        let told = |name: &str| {
            let mut cargo = Command::new("cargo");
            Toolchain {
                name: name.into(),
                llvm: 22,
            }
            .apply(&mut cargo);
            cargo.get_envs().next().is_some()
        };
        assert!(!told(NIGHTLY));
        assert!(told(PINNED));
    }
}
