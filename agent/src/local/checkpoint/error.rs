//! `CheckpointError`: reasons why a checkpoint cannot be written or used.

use std::{io, path::PathBuf};

use headroom_domain::estimate::ResumeError;

/// Why a checkpoint cannot be written or used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("{path}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file does not begin as a checkpoint does.
    #[error("it is not a checkpoint of an agent")]
    Foreign,
    /// The file is of a schema that this agent does not read.
    #[error("it has schema version {found}, and a file of this name needs {known}")]
    Version {
        found: u32,
        /// That which files of its name are of.
        known: u32,
    },
    /// Others may put files into the folder, and it is shared on purpose.
    #[error("{path}: all users may write there")]
    Shared { path: PathBuf },
    /// The folder or file is another user's.
    #[error("{path}: it belongs to user {uid}")]
    NotOwned { path: PathBuf, uid: u32 },
    /// The name is that of a link, a folder or something else.
    #[error("it is not a regular file")]
    NotAFile,
    /// Others may have written the file.
    #[error("other users may write to it, or could write to its folder")]
    Exposed,
    /// The file is shorter than its header states.
    #[error("it is truncated")]
    Truncated,
    /// The checksum does not match.
    #[error("its checksum does not match")]
    Damaged,
    /// The checksum matches and the content makes no sense.
    #[error("its content cannot be read")]
    Content(#[from] postcard::Error),
    /// It is no state that an estimator can be in.
    #[error("its content is inconsistent")]
    State(#[from] ResumeError),
    /// It belongs to another node or timing.
    #[error("it is of node {node} under the timing {timing}")]
    Other { node: String, timing: String },
}
