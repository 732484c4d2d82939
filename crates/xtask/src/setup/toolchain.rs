//! Finds or installs the Rust toolchain that compiles the kernel programs: a nightly with the sources of `core`.

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
        why: "compiles the kernel programs if rustup cannot fetch a nightly",
    },
    Package {
        name: "cargo-web",
        why: "runs that compiler",
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
    /// The first usable toolchain: the one in `HEADROOM_BPF_TOOLCHAIN` if set, else `nightly`, the pinned nightly, Debian's.
    pub fn find() -> Option<Self> {
        candidates().into_iter().find_map(|name| match inspect(&name) {
            ToolchainVerdict::Usable(llvm) => Some(Self { name, llvm }),
            ToolchainVerdict::Absent | ToolchainVerdict::Lacks(_) | ToolchainVerdict::TooNew(_) => None,
        })
    }

    /// Finds or installs a toolchain: adds missing components to `nightly`, else fetches the pinned nightly, else installs
    /// Debian's compiler.
    ///
    /// # Errors
    /// If none of these works; the message has instructions.
    pub fn ensure() -> Result<Self> {
        if let Some(toolchain) = Self::find() {
            return Ok(toolchain);
        }
        workspace::on_path("rustup")
            .context("rustup is not on PATH: see https://rustup.rs or install Debian's package rustup")?;
        fetch().or_else(|error| {
            print(format!(
                "rustup cannot fetch a nightly ({error:#}); using Debian's compiler instead."
            ));
            debian::ensure(&DEBIAN_PACKAGES)?;
            step::run(
                "rustup-link",
                rustup().args(["toolchain", "link", DEBIAN, "/usr"]),
            )
        })?;
        Self::find().with_context(|| {
            format!(
                "no usable toolchain after the installation; tried: {}",
                candidates().join(", ")
            )
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name and LLVM version, for messages.
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
            "`nightly` has LLVM {llvm}, whose bitcode bpf-linker cannot read; fetching {PINNED} in addition."
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
