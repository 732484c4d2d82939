//! Architecture and linkage of a program, read from its ELF header.

use std::{
    fmt::{Display, Formatter},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use object::{
    LittleEndian,
    elf::{EM_AARCH64, EM_X86_64, PT_INTERP},
    read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _},
};

/// Processor architectures that Headroom's manifests accept, by their names in Kubernetes and in images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Architecture {
    Amd64,
    Arm64,
}

/// Properties of a program that decide where it can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elf {
    /// `None` for an architecture other than ours.
    pub architecture: Option<Architecture>,
    /// True if the kernel runs it without a loader and shared libraries.
    pub is_static: bool,
}

impl Architecture {
    /// Architecture of this program.
    pub const OWN: Self = if cfg!(target_arch = "aarch64") {
        Self::Arm64
    } else {
        Self::Amd64
    };

    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust target of static programs.
    pub const fn static_target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }
}

impl Display for Architecture {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Elf {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is no 64-bit ELF file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&bytes).with_context(|| format!("{} is no 64-bit ELF program", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let file = ElfFile64::<LittleEndian>::parse(bytes)?;
        let endian = file.endian();
        let has_loader = file
            .elf_program_headers()
            .iter()
            .any(|header| header.p_type(endian) == PT_INTERP);
        let architecture = match file.elf_header().e_machine(endian) {
            EM_X86_64 => Some(Architecture::Amd64),
            EM_AARCH64 => Some(Architecture::Arm64),
            _ => None,
        };
        Ok(Self {
            architecture,
            is_static: !has_loader,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn test_program_has_this_architecture_and_a_loader() {
        let elf = Elf::read(&env::current_exe().expect("path")).expect("an ELF file");
        assert_eq!(elf.architecture, Some(Architecture::OWN));
        assert_eq!(elf.is_static, cfg!(target_feature = "crt-static"));
    }

    #[test]
    fn text_is_no_program() {
        assert!(Elf::parse(b"#!/bin/sh\n").is_err());
    }
}
