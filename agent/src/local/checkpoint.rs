//! Saves the estimator's state to disk and loads it at the start, so that a restarted agent keeps its history. See
//! docs/estimator.md#what-survives-a-restart.
//!
//! Each schema that is written has two files: the newest state and the one before it. An unusable file is set aside
//! under another name; its content is lost, and the agent starts all the same.

mod format;
mod schema;

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use headroom_domain::{
    estimate::{Boot, ResumeError, Snapshot},
    hint::Beginning,
};
use headroom_kit::log::chain;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task};
use tracing::{info, warn};

use self::schema::{OWN, PREDECESSOR, Read, Schema};
use crate::metrics::CHECKPOINTS;

/// What is being written.
const UNFINISHED: &str = "estimator.checkpoint.unfinished";
/// What a file that cannot be used is called then; the last one is kept.
const ASIDE: &str = "unusable";
/// No file is larger: three times what 512 pods take.
const LARGEST: u64 = 4 << 20;
/// For so long after a schema was first written in a folder, its predecessor's is written beside it.
const BOTH_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// What a folder's mode allows others to do: make, rename and remove files.
const OTHERS_WRITE: u32 = 0o022;
/// A folder that everybody may use, and that is nobody's to close.
const STICKY: u32 = 0o1000;

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
pub struct CheckpointFile {
    /// Whose state it is.
    pub owner: Owner,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Wall time since 1970. It sizes the gap to another boot and says how old the history is, and decides nothing else.
    pub wall: Duration,
    /// When the history began; `None` from a version that did not say.
    pub began: Option<HistoryOrigin>,
    /// The state.
    pub snapshot: Snapshot,
}

/// When a history began, and why then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryOrigin {
    /// Wall time since 1970.
    pub wall: Duration,
    /// Why.
    pub why: Beginning,
}

/// What became of the records in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded<T> {
    /// One could be used.
    Resumed(T),
    /// There was none.
    Nothing,
    /// None of those that were there could be used.
    Unusable,
}

impl<T> Loaded<T> {
    /// What was made of the record that could be used.
    pub fn resumed(self) -> Option<T> {
        match self {
            Self::Resumed(resumed) => Some(resumed),
            Self::Nothing | Self::Unusable => None,
        }
    }
}

impl CheckpointFile {
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
    /// Wall time since which this schema is written in the folder.
    since: Duration,
}

/// The records of one schema, newest first, of which the first that can be read is known.
struct Candidates {
    schema: Schema,
    first: Option<(&'static str, Read)>,
    rest: std::vec::IntoIter<&'static str>,
}

impl Store {
    /// The files in this folder, which is made for the agent alone if it is not there; `wall` is now. A folder of ours that
    /// others may write to becomes ours alone: who could put a file there could have any ratio published.
    ///
    /// # Errors
    /// The folder cannot be made or closed, or everybody is meant to use it.
    pub fn open(folder: &Path, wall: Duration) -> Result<Self, CheckpointError> {
        let failed = |source| CheckpointError::File {
            path: folder.to_owned(),
            source,
        };
        let close = || fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed);
        if folder.is_dir() {
            let mode = fs::metadata(folder).map_err(failed)?.mode();
            if mode & STICKY != 0 {
                return Err(CheckpointError::Shared {
                    path: folder.to_owned(),
                });
            }
            if mode & OTHERS_WRITE != 0 {
                close()?;
            }
        } else {
            fs::create_dir_all(folder).map_err(failed)?;
            close()?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            since: wall,
        })
    }

    /// What `resume` makes of the newest record of this owner that can be used, if there is any: of this schema, or of its
    /// predecessor, if that was written later.
    pub fn load<T>(
        &mut self,
        owner: &Owner,
        mut resume: impl FnMut(CheckpointFile) -> Result<T, ResumeError>,
    ) -> Loaded<T> {
        let mut is_any_unusable = false;
        let mut all = [OWN, PREDECESSOR].map(|schema| Candidates {
            schema,
            first: None,
            rest: vec![schema.newest, schema.before].into_iter(),
        });
        for candidates in &mut all {
            is_any_unusable |= self.advance(candidates, owner);
        }
        loop {
            let [own, former] = &mut all;
            let wall = |of: &Candidates| of.first.as_ref().map(|(_, read)| read.record.wall);
            let next = if wall(former) > wall(own) { former } else { own };
            let Some((name, Read { record, since })) = next.first.take() else {
                break;
            };
            match resume(record) {
                Ok(resumed) => {
                    self.since = since.unwrap_or(self.since);
                    return Loaded::Resumed(resumed);
                }
                Err(error) => self.set_aside(name, &error.into()),
            }
            is_any_unusable = true;
            self.advance(next, owner);
        }
        if is_any_unusable {
            Loaded::Unusable
        } else {
            Loaded::Nothing
        }
    }

    /// Reads on to the next record that can be read; true if one could not be.
    fn advance(&self, candidates: &mut Candidates, owner: &Owner) -> bool {
        let mut is_any_unusable = false;
        for name in candidates.rest.by_ref() {
            match self.read(candidates.schema, name, owner) {
                Ok(None) => {}
                Ok(Some(read)) => {
                    candidates.first = Some((name, read));
                    break;
                }
                Err(error) => {
                    self.set_aside(name, &error);
                    is_any_unusable = true;
                }
            }
        }
        is_any_unusable
    }

    /// Writes a record. Whenever the process or the machine ends meanwhile, it or the one before it can be loaded. In the
    /// first day of this schema in the folder the version before can load it, too.
    ///
    /// # Errors
    /// The file system refuses; the records of before are as they were.
    pub fn save(&self, record: &CheckpointFile) -> Result<(), CheckpointError> {
        // A clock that went back says nothing of how long it has been.
        let is_young = record
            .wall
            .checked_sub(self.since)
            .is_none_or(|age| age < BOTH_FOR);
        if is_young {
            self.save_as(PREDECESSOR, record)?;
        }
        self.save_as(OWN, record)
    }

    fn save_as(&self, schema: Schema, record: &CheckpointFile) -> Result<(), CheckpointError> {
        let bytes = schema.encode(record, self.since)?;
        self.write(schema, &bytes)
            .map_err(|(path, source)| CheckpointError::File { path, source })
    }

    fn write(&self, schema: Schema, bytes: &[u8]) -> Result<(), (PathBuf, io::Error)> {
        let names = [schema.newest, schema.before, UNFINISHED];
        let [newest, before, unfinished] = names.map(|name| self.folder.join(name));
        let write = || {
            let mut options = File::options();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|error| (unfinished.clone(), error))?;
        // The file that is complete is moved first: at every moment one of the two names has a whole record.
        match fs::rename(&newest, &before) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err((newest, error)),
            Ok(()) | Err(_) => {}
        }
        fs::rename(&unfinished, &newest).map_err(|error| (newest, error))?;
        // Names are the folder's: without this a machine that loses power may come up with the old ones.
        let sync = File::open(&self.folder).and_then(|folder| folder.sync_all());
        sync.map_err(|error| (self.folder.clone(), error))
    }

    fn read(&self, schema: Schema, name: &str, owner: &Owner) -> Result<Option<Read>, CheckpointError> {
        let path = self.folder.join(name);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| CheckpointError::File { path, source })?,
        };
        let read = schema.decode(&bytes)?;
        if read.record.owner == *owner {
            Ok(Some(read))
        } else {
            let Owner { node, timing } = read.record.owner;
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
pub async fn keep(store: Store, mut records: watch::Receiver<Option<Arc<CheckpointFile>>>) {
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
                warn!(%reason, "cannot save a checkpoint; a restart goes on from the last saved one");
            }
            (None, true) => info!("checkpoints are saved again"),
            (Some(_), true) | (None, false) => {}
        }
        is_failing = problem.is_some();
    }
}

#[cfg(test)]
mod tests;
