//! `CheckpointError` says why a checkpoint cannot be written or used.

use std::{io, path::PathBuf};

use headroom_domain::estimate::ResumeError;

/// Why a checkpoint cannot be written or used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refuses.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file does not begin as a checkpoint does.
    #[error("it is no checkpoint of an agent")]
    Foreign,
    /// The file is of a schema that this agent does not read.
    #[error("it is of schema version {found}, and a file of this name of {known}")]
    Version {
        /// Its version.
        found: u32,
        /// That which files of its name are of.
        known: u32,
    },
    /// Others may put files into the folder, and it is shared on purpose.
    #[error("{path}: everybody may write there")]
    Shared {
        /// The folder.
        path: PathBuf,
    },
    /// The folder or file is another user's.
    #[error("{path}: it belongs to user {uid}")]
    NotOwned {
        /// The folder or file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The name is that of a link, a folder or something else.
    #[error("it is no regular file")]
    NotAFile,
    /// Others may have written the file.
    #[error("others may write to it, or could write to its folder")]
    Exposed,
    /// The file is shorter than it says.
    #[error("it is cut off")]
    Truncated,
    /// The checksum does not match.
    #[error("its checksum does not match")]
    Damaged,
    /// The checksum matches and the content makes no sense.
    #[error("its content cannot be read")]
    Content(#[from] postcard::Error),
    /// It is no state that an estimator can be in.
    #[error("its content makes no sense")]
    State(#[from] ResumeError),
    /// It tells of another node or timing.
    #[error("it is of node {node} under the timing {timing}")]
    Other {
        /// The node.
        node: String,
        /// The timing.
        timing: String,
    },
}
