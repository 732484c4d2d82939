//! Finds or gets the Rust toolchain that compiles the kernel programs: a nightly with the sources of `core`.

mod choice;

use std::process::Command;

use anyhow::{Context as _, Result};

pub(super) use self::choice::LLVM;
use self::choice::{DEBIAN, NIGHTLY, PINNED, ToolchainVerdict, candidates, inspect};
use super::{
    debian::{self, Package},
    step,
};
use crate::{terminal::print, workspace};

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

impl Toolchain {
    /// The first usable one: what `HEADROOM_BPF_TOOLCHAIN` names, else `nightly`, the pinned nightly, Debian's.
    pub fn find() -> Option<Self> {
        candidates().into_iter().find_map(|name| match inspect(&name) {
            ToolchainVerdict::Usable(llvm) => Some(Self { name, llvm }),
            ToolchainVerdict::Absent | ToolchainVerdict::Lacks(_) | ToolchainVerdict::TooNew(_) => None,
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
            print(format!(
                "rustup cannot fetch a nightly ({error:#}); taking Debian's compiler instead."
            ));
            debian::ensure(&DEBIAN_PACKAGES)?;
            step::run(
                "rustup-link",
                rustup().args(["toolchain", "link", DEBIAN, "/usr"]),
            )
        })?;
        Self::find().with_context(|| format!("not usable after all: {}", candidates().join(", ")))
    }

    /// What rustup calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, for people.
    pub fn describe(&self) -> String {
        format!("{} (LLVM {})", self.name, self.llvm)
    }
}

fn fetch() -> Result<()> {
    if let ToolchainVerdict::Lacks(component) = inspect(NIGHTLY) {
        let added = rustup_step(
            "rustup-component",
            &["component", "add", component, "rustfmt", "--toolchain", NIGHTLY],
        );
        if added.is_ok() && matches!(inspect(NIGHTLY), ToolchainVerdict::Usable(_)) {
            return Ok(());
        }
    }
    if let ToolchainVerdict::TooNew(llvm) = inspect(NIGHTLY) {
        print(format!(
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
