//! Removes an installation: finds its objects, the leftovers on nodes and the obstacles, and decides the order.

pub mod found_object;
pub mod inventory;
pub mod node_leftovers;
pub mod object_kind;
pub mod permissions;
pub mod removal_line;
pub mod survey;

mod namespace_contents;

use crate::error::Error;

/// Error of `uninstall`.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// Nothing was changed.
    #[error(
        "the user lacks permission to {}; nothing was changed: run it as a cluster administrator",
        missing.join(", ")
    )]
    MissingRights { missing: Vec<String> },
    #[error(
        "{end}; nothing else was deleted: raise --wait-seconds, move pods away, or pass --force, with which a kubelet that restarts \
         fails pods that fit only the amplified value"
    )]
    NotRaw {
        /// The nodes and the reasons.
        end: String,
    },
    #[error("not removed: {}", left.join("; "))]
    Left { left: Vec<String> },
}

impl From<UninstallError> for Error {
    fn from(error: UninstallError) -> Self {
        Self::Area(Box::new(error))
    }
}
