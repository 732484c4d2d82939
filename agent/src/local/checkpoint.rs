//! Saves the estimator's state to disk and loads it at the start, so that a restarted agent keeps its history. See
//! docs/estimator.md#what-survives-a-restart.
//!
//! Each schema that is written has two files: the newest state and the one before it. An unusable file is set aside
//! under another name; its content is lost, and the agent starts all the same.

mod error;
mod folder;
mod format;
mod schema;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
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

pub use self::error::CheckpointError;
use self::schema::{OWN, PREDECESSOR, Read, Schema};
use crate::metrics::CHECKPOINTS;

/// Name of a file while it is written.
const UNFINISHED: &str = "estimator.checkpoint.unfinished";
/// Name for a file that cannot be used; only the last one is kept.
const ASIDE: &str = "unusable";
/// Time after the first write of a schema in a folder during which the previous schema is also written.
const BOTH_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// All names that a checkpoint may have.
const NAMES: [&str; 5] = [
    OWN.newest,
    OWN.before,
    PREDECESSOR.newest,
    PREDECESSOR.before,
    UNFINISHED,
];

/// Node and timing of a state: a file of another owner is not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub node: String,
    /// Name of the timing profile.
    pub timing: String,
}

/// Content of a checkpoint file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointFile {
    /// Owner of the state.
    pub owner: Owner,
    pub boot_id: String,
    /// Wall time since 1970. It is used for the gap to another boot and the age of the history only.
    pub wall: Duration,
    /// Start of the history; `None` from a version that did not record it.
    pub began: Option<HistoryOrigin>,
    pub snapshot: Snapshot,
}

/// Start of a history, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryOrigin {
    pub wall: Duration,
    pub why: Beginning,
}

/// Result of loading the records of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded<T> {
    Resumed(T),
    Nothing,
    /// None of those that were there could be used.
    Unusable,
}

impl<T> Loaded<T> {
    /// Result for a usable record.
    pub fn resumed(self) -> Option<T> {
        match self {
            Self::Resumed(resumed) => Some(resumed),
            Self::Nothing | Self::Unusable => None,
        }
    }
}

impl CheckpointFile {
    /// Time between the record and a start on this boot at this wall time.
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
    /// The user whose files they are.
    own: u32,
    /// True if there were files that others may have put there.
    was_exposed: bool,
}

/// The records of one schema, newest first, of which the first that can be read is known.
struct Candidates {
    schema: Schema,
    first: Option<(&'static str, Read)>,
    rest: std::vec::IntoIter<&'static str>,
}

impl Store {
    /// Opens the files in this folder, which is created for the agent alone if it is missing; `wall` is now. A folder
    /// of the agent's user that other users may write to is closed to them, and its content is set aside, since other
    /// users may have written it.
    ///
    /// # Errors
    /// The folder cannot be made, closed or cleared, is another user's, or is shared by all users.
    pub fn open(folder: &Path, wall: Duration) -> Result<Self, CheckpointError> {
        Self::open_as(folder, wall, rustix::process::geteuid().as_raw())
    }

    /// Like [`Store::open`], for the user `own`.
    fn open_as(folder: &Path, wall: Duration, own: u32) -> Result<Self, CheckpointError> {
        let was_open = folder::claim(folder, own)?;
        let mut store = Self {
            folder: folder.to_owned(),
            since: wall,
            own,
            was_exposed: false,
        };
        // Only after the folder is closed, so that no user can add files.
        for name in NAMES.into_iter().filter(|_| was_open) {
            let path = folder.join(name);
            if fs::symlink_metadata(&path).is_err() {
                continue;
            }
            store.was_exposed = true;
            // Once the folder is closed, this file could not be distinguished from later ones.
            if let Err(source) = store.set_aside(name, &CheckpointError::Exposed) {
                return Err(CheckpointError::File { path, source });
            }
        }
        Ok(store)
    }

    /// Result of `resume` for the newest usable record of this owner: of this schema, or of the previous one if that
    /// was written later.
    pub fn load<T>(
        &mut self,
        owner: &Owner,
        mut resume: impl FnMut(CheckpointFile) -> Result<T, ResumeError>,
    ) -> Loaded<T> {
        let mut is_any_unusable = self.was_exposed;
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
                Err(error) => drop(self.set_aside(name, &error.into())),
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
                    drop(self.set_aside(name, &error));
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
        // A clock that was set back does not give the elapsed time.
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
            // A new file each time: the existing name may be a link to another file.
            match fs::remove_file(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut options = File::options();
            options.write(true).create_new(true).mode(0o600);
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
        let Some(bytes) = folder::read(&self.folder.join(name), self.own)? else {
            return Ok(None);
        };
        let read = schema.decode(&bytes)?;
        if read.record.owner == *owner {
            Ok(Some(read))
        } else {
            let Owner { node, timing } = read.record.owner;
            Err(CheckpointError::Other { node, timing })
        }
    }

    /// Renames a file that is of no use for this reason; the log has both, and whether that failed.
    fn set_aside(&self, name: &str, error: &CheckpointError) -> io::Result<()> {
        let from = self.folder.join(name);
        let to = self.folder.join(format!("{name}.{ASIDE}"));
        let reason = chain(error);
        let renamed = fs::rename(&from, &to);
        match &renamed {
            Ok(()) => {
                warn!(file = %from.display(), now = %to.display(), %reason, "a checkpoint is unusable and was set aside");
            }
            Err(error) => {
                warn!(file = %from.display(), %reason, %error, "a checkpoint is unusable and could not be set aside");
            }
        }
        renamed
    }
}

/// Wall time since 1970; zero before.
pub fn wall() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Saves each record, the newest first, until the sender is dropped.
pub async fn keep(store: Store, mut records: watch::Receiver<Option<Arc<CheckpointFile>>>) {
    let mut is_failing = false;
    while records.changed().await.is_ok() {
        let Some(record) = records.borrow_and_update().clone() else {
            continue;
        };
        let store = store.clone();
        // The disk may be slow; no other task waits for it.
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
                warn!(%reason, "could not save a checkpoint; a restart continues from the last saved one");
            }
            (None, true) => info!("checkpoints are saved again"),
            (Some(_), true) | (None, false) => {}
        }
        is_failing = problem.is_some();
    }
}

#[cfg(test)]
mod tests;
