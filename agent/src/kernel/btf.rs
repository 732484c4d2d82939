//! Offsets of kernel fields and arguments of kernel tracepoints, read from the running kernel's BTF. None is guessed.
//!
//! The whole file (5.5 MB for a distribution kernel) is in memory only while [`KernelTypes`] lives.

mod excerpt;
mod types;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use self::types::{Member, Types};

/// BTF of the running kernel.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// A type, field or argument could not be read from BTF.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file does not exist or cannot be read: a kernel without `CONFIG_DEBUG_INFO_BTF`, or no permission.
    #[error("read {}, which exists on kernels built with CONFIG_DEBUG_INFO_BTF", path.display())]
    Read {
        /// Path of the BTF file.
        path: PathBuf,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
    /// The file is not valid BTF, or a type is missing among those before the first type of an unknown kind.
    #[error("{}: {what} at byte {offset}", path.display())]
    Malformed {
        /// Path of the BTF file.
        path: PathBuf,
        what: &'static str,
        /// Offset from the start of the file, in bytes.
        offset: usize,
    },
    /// The kernel has no such type.
    #[error("the kernel's BTF has no {kind} `{name}`")]
    NoType { kind: &'static str, name: String },
    /// The structure has none of the fields.
    #[error("`struct {structure}` has no field `{fields}`")]
    NoField {
        structure: String,
        /// Names in the order in which they were tried.
        fields: String,
    },
    /// The field is a bit field, or not an integer of 4 or 8 bytes.
    #[error("`{structure}.{field}` is not a 4 or 8 byte integer")]
    NotAnInteger { structure: String, field: String },
    /// The tracepoint's argument has another type than the programs expect.
    #[error("argument {index} of tracepoint `{tracepoint}` is not a `struct {structure} *`")]
    Argument {
        tracepoint: String,
        /// Position of the argument, counted from 0.
        index: usize,
        /// Structure that it should point to.
        structure: String,
    },
}

impl BtfError {
    /// Returns true if the kernel lacks the file, type or field; false if it exists and cannot be read.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Malformed { .. } => false,
            Self::NoType { .. }
            | Self::NoField { .. }
            | Self::NotAnInteger { .. }
            | Self::Argument { .. } => true,
        }
    }
}

/// An integer field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset from the start of the structure, in bytes.
    pub offset: u64,
    /// Width in bytes, 4 or 8.
    pub width: u64,
}

/// The types of one kernel.
#[derive(Debug)]
pub struct KernelTypes {
    path: PathBuf,
    types: Types,
}

impl KernelTypes {
    /// Reads and indexes a BTF file.
    ///
    /// # Errors
    /// [`BtfError::Read`] and [`BtfError::Malformed`].
    pub fn read(path: &Path) -> Result<Self, BtfError> {
        let bytes = std::fs::read(path).map_err(|source| BtfError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, bytes)
    }

    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, BtfError> {
        let types = Types::index(bytes).map_err(|fault| BtfError::Malformed {
            path: path.to_owned(),
            what: fault.what,
            offset: fault.offset,
        })?;
        Ok(Self {
            path: path.to_owned(),
            types,
        })
    }

    /// Finds an integer field of a structure: the first of `paths` that exists. A path names a field, or a field of an
    /// embedded structure such as `se.vruntime`. Fields of anonymous members belong to the structure, as in C.
    ///
    /// # Errors
    /// [`BtfError::NoType`], [`BtfError::NoField`] and [`BtfError::NotAnInteger`].
    pub fn field(&self, structure: &str, paths: &[&str]) -> Result<Field, BtfError> {
        let id = self.structure(structure)?;
        for path in paths {
            let Some(Member {
                ty,
                bit_offset,
                is_bit_field,
            }) = self.sound(self.types.member(id, path))?
            else {
                continue;
            };
            let not_an_integer = || BtfError::NotAnInteger {
                structure: structure.to_owned(),
                field: (*path).to_owned(),
            };
            let width = self
                .sound(self.types.integer_width(ty))?
                .ok_or_else(not_an_integer)?;
            if is_bit_field || bit_offset % 8 != 0 || !matches!(width, 4 | 8) {
                return Err(not_an_integer());
            }
            return Ok(Field {
                offset: u64::from(bit_offset / 8),
                width: u64::from(width),
            });
        }
        Err(BtfError::NoField {
            structure: structure.to_owned(),
            fields: paths.join("` or `"),
        })
    }

    /// Checks that the arguments of a tracepoint at `positions` (counted from 0, as in `TP_PROTO`) point to structures of
    /// this name.
    ///
    /// # Errors
    /// [`BtfError::NoType`] and [`BtfError::Argument`].
    pub fn check_arguments(
        &self,
        tracepoint: &str,
        positions: &[usize],
        structure: &str,
    ) -> Result<(), BtfError> {
        let wanted = self.structure(structure)?;
        let id = self.sound(self.types.typedef(&type_name(tracepoint)))?;
        let id = id.ok_or_else(|| BtfError::NoType {
            kind: "tracepoint",
            name: tracepoint.to_owned(),
        })?;
        for &index in positions {
            // The first parameter of the prototype is the probe's private pointer.
            if self.sound(self.types.pointee_of_parameter(id, index + 1))? != Some(wanted) {
                let (tracepoint, structure) = (tracepoint.to_owned(), structure.to_owned());
                return Err(BtfError::Argument {
                    tracepoint,
                    index,
                    structure,
                });
            }
        }
        Ok(())
    }

    /// A BTF file with only the types of these tracepoints, under the same type ids; attaching typed programs needs no more. It
    /// omits tracepoints that this kernel does not have, and those that cannot be found.
    pub fn excerpt(&self, tracepoints: &[&str]) -> Vec<u8> {
        let mut typedefs = BTreeMap::new();
        for tracepoint in tracepoints {
            let name = type_name(tracepoint);
            if let Ok(Some(id)) = self.types.typedef(&name) {
                typedefs.insert(id, name);
            }
        }
        excerpt::encode(&typedefs)
    }

    fn structure(&self, name: &str) -> Result<u32, BtfError> {
        self.sound(self.types.structure(name))?
            .ok_or_else(|| BtfError::NoType {
                kind: "struct",
                name: name.to_owned(),
            })
    }

    fn sound<T>(&self, read: Result<T, types::TypesError>) -> Result<T, BtfError> {
        read.map_err(|types::TypesError { what, offset }| BtfError::Malformed {
            path: self.path.clone(),
            what,
            offset,
        })
    }
}

/// Name of the BTF type of a tracepoint.
fn type_name(tracepoint: &str) -> String {
    format!("btf_trace_{tracepoint}")
}

#[cfg(test)]
mod tests;
