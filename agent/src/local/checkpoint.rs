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

/// What is being written.
const UNFINISHED: &str = "estimator.checkpoint.unfinished";
/// What a file that cannot be used is called then; the last one is kept.
const ASIDE: &str = "unusable";
/// For so long after a schema was first written in a folder, its predecessor's is written beside it.
const BOTH_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// All names that a checkpoint may have.
const NAMES: [&str; 5] = [
    OWN.newest,
    OWN.before,
    PREDECESSOR.newest,
    PREDECESSOR.before,
    UNFINISHED,
];

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
    /// The files in this folder, which is made for the agent alone if it is not there; `wall` is now. A folder of ours that
    /// others may write to becomes ours alone, and what lies in it is set aside: anybody may have put it there.
    ///
    /// # Errors
    /// The folder cannot be made, closed or cleared, is another user's, or everybody is meant to use it.
    pub fn open(folder: &Path, wall: Duration) -> Result<Self, CheckpointError> {
        Self::open_as(folder, wall, rustix::process::geteuid().as_raw())
    }

    /// As [`Store::open`], for the user `own`.
    fn open_as(folder: &Path, wall: Duration, own: u32) -> Result<Self, CheckpointError> {
        let was_open = folder::claim(folder, own)?;
        let mut store = Self {
            folder: folder.to_owned(),
            since: wall,
            own,
            was_exposed: false,
        };
        // Not before it is closed: nobody can put more there.
        for name in NAMES.into_iter().filter(|_| was_open) {
            let path = folder.join(name);
            if fs::symlink_metadata(&path).is_err() {
                continue;
            }
            store.was_exposed = true;
            // Once the folder is closed nothing would tell that this file is of before.
            if let Err(source) = store.set_aside(name, &CheckpointError::Exposed) {
                return Err(CheckpointError::File { path, source });
            }
        }
        Ok(store)
    }

    /// What `resume` makes of the newest record of this owner that can be used, if there is any: of this schema, or of its
    /// predecessor, if that was written later.
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
            // A new file each time: what has that name may be a link to another.
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
                warn!(file = %from.display(), now = %to.display(), %reason, "a checkpoint is of no use and was set aside");
            }
            Err(error) => {
                warn!(file = %from.display(), %reason, %error, "a checkpoint is of no use and cannot be set aside");
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
