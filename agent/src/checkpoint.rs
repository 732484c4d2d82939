//! The estimator's state on disk, so that an agent that is started again remembers. See agent.md, section 2.6.
//!
//! Two files: the newest state and the one before it. A file that cannot be used is set aside under another name; it
//! costs what was in it and never the start.

mod format;

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use headroom_domain::estimate::{Boot, ResumeError, Snapshot};
use headroom_kit::log::chain;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task};
use tracing::{info, warn};

use crate::metrics::CHECKPOINTS;

/// The newest state.
const NEWEST: &str = "estimator.checkpoint";
/// The state before it.
const BEFORE: &str = "estimator.checkpoint.before";
/// What is being written.
const UNFINISHED: &str = "estimator.checkpoint.unfinished";
/// What a file that cannot be used is called then; the last one is kept.
const ASIDE: &str = "unusable";
/// No file is larger: three times what 512 pods take.
const LARGEST: u64 = 4 << 20;

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
    #[error("it is of schema version {found}, and this agent reads {known}", known = format::VERSION)]
    Version {
        /// Its version.
        found: u32,
    },
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

/// Whose state it is: a file of anybody else is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Name of the Node.
    pub node: String,
    /// Name of the timing profile.
    pub timing: String,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whose state it is.
    pub owner: Owner,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Wall time since 1970. It sizes the gap to another boot and decides nothing else.
    pub wall: Duration,
    /// The state.
    pub snapshot: Snapshot,
}

impl Record {
    /// What lies between the record and a start on this boot at this wall time.
    pub fn boot(&self, boot_id: &str, wall: Duration) -> Boot {
        if self.boot_id == boot_id {
            return Boot::Same;
        }
        Boot::Other {
            gap: wall.checked_sub(self.wall),
        }
    }
}

/// The folder of the files. One agent at a time has it.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The files in this folder, which is made for the agent alone if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let failed = |source| CheckpointError::File {
            path: folder.to_owned(),
            source,
        };
        if !folder.is_dir() {
            fs::create_dir_all(folder).map_err(failed)?;
            fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// What `resume` makes of the newest record of this owner that can be used, if there is any.
    pub fn load<T>(
        &self,
        owner: &Owner,
        mut resume: impl FnMut(Record) -> Result<T, ResumeError>,
    ) -> Option<T> {
        [NEWEST, BEFORE].into_iter().find_map(|name| {
            let read = self.read(name, owner);
            let resumed = read.and_then(|record| Ok(record.map(&mut resume).transpose()?));
            resumed.unwrap_or_else(|error| {
                self.set_aside(name, &error);
                None
            })
        })
    }

    /// Writes a record. Whenever the process or the machine ends meanwhile, it or the one before it can be loaded.
    ///
    /// # Errors
    /// The file system refuses; the records of before are as they were.
    pub fn save(&self, record: &Record) -> Result<(), CheckpointError> {
        let bytes = format::encode(record)?;
        self.write(&bytes)
            .map_err(|(path, source)| CheckpointError::File { path, source })
    }

    fn write(&self, bytes: &[u8]) -> Result<(), (PathBuf, io::Error)> {
        let [newest, before, unfinished] = [NEWEST, BEFORE, UNFINISHED].map(|name| self.folder.join(name));
        let write = || {
            let mut options = File::options();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|error| (unfinished.clone(), error))?;
        match fs::rename(&newest, &before) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err((newest, error)),
            Ok(()) | Err(_) => {}
        }
        fs::rename(&unfinished, &newest).map_err(|error| (newest, error))?;
        // Names are the folder's: without this a machine that loses power may come up with the old ones.
        let sync = File::open(&self.folder).and_then(|folder| folder.sync_all());
        sync.map_err(|error| (self.folder.clone(), error))
    }

    fn read(&self, name: &str, owner: &Owner) -> Result<Option<Record>, CheckpointError> {
        let path = self.folder.join(name);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| CheckpointError::File { path, source })?,
        };
        let record = format::decode(&bytes)?;
        if record.owner == *owner {
            Ok(Some(record))
        } else {
            let Owner { node, timing } = record.owner;
            Err(CheckpointError::Other { node, timing })
        }
    }

    fn set_aside(&self, name: &str, error: &CheckpointError) {
        let from = self.folder.join(name);
        let to = self.folder.join(format!("{name}.{ASIDE}"));
        let reason = chain(error);
        match fs::rename(&from, &to) {
            Ok(()) => {
                warn!(file = %from.display(), now = %to.display(), %reason, "a checkpoint is of no use and was set aside");
            }
            Err(error) => {
                warn!(file = %from.display(), %reason, %error, "a checkpoint is of no use and cannot be set aside");
            }
        }
    }
}

/// Wall time since 1970; zero before.
pub fn wall() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Saves what is given to be saved, the newest first, until nobody gives any more.
pub async fn keep(store: Store, mut records: watch::Receiver<Option<Arc<Record>>>) {
    let mut is_failing = false;
    while records.changed().await.is_ok() {
        let Some(record) = records.borrow_and_update().clone() else {
            continue;
        };
        let store = store.clone();
        // A disk may take its time; nobody waits for it.
        let saved = task::spawn_blocking(move || store.save(&record)).await;
        let problem = match saved {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error).to_string()),
            Err(error) => Some(error.to_string()),
        };
        let result = if problem.is_none() { "saved" } else { "failed" };
        CHECKPOINTS.with([result]).increment(1);
        match (&problem, is_failing) {
            (Some(reason), false) => {
                warn!(%reason, "no checkpoint can be saved; a restart would forget what follows");
            }
            (None, true) => info!("checkpoints are saved again"),
            (Some(_), true) | (None, false) => {}
        }
        is_failing = problem.is_some();
    }
}

#[cfg(test)]
mod tests;
