//! Record layouts of the two checkpoint schemas: the agent's own and its predecessor's. An agent reads both, and writes
//! both until it has run in a folder for a day: an image that is rolled back within that time finds a file that it can
//! read.
//!
//! A change to the parts of a [`CheckpointFile`], or of the snapshot in it, raises [`OWN`]. The former types stay here
//! as those of the predecessor, with conversions in both directions, and the version before is dropped.
//!
//! Optional parts need no new version: they follow the record, where agents without them stop reading. The bounds of
//! frames that do not count are such a part, and after them the lineages of pods.

use std::time::Duration;

use headroom_domain::{
    estimate::{Lineage, Snapshot},
    resource::PerResource,
};
use serde::de::DeserializeOwned;

use super::{CheckpointError, CheckpointFile, Owner, format};

/// A version and the names of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schema {
    pub(super) version: u32,
    pub(super) newest: &'static str,
    pub(super) before: &'static str,
}

/// Schema from which this agent continues.
pub(super) const OWN: Schema = Schema {
    version: 2,
    newest: "estimator.v2.checkpoint",
    before: "estimator.v2.checkpoint.before",
};
/// Schema from which the previous version continues.
pub(super) const PREDECESSOR: Schema = Schema {
    version: 1,
    newest: "estimator.checkpoint",
    before: "estimator.checkpoint.before",
};

/// Type of [`Snapshot::bounds`].
pub(super) type Bounds = PerResource<Vec<(u64, u64)>>;

/// A record as it was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) record: CheckpointFile,
    /// Wall time since which its schema is written in the folder; `None` where it is the predecessor's.
    pub(super) since: Option<Duration>,
}

impl Schema {
    /// The bytes of a record; its schema is written in the folder since that wall time.
    ///
    /// # Errors
    /// The record cannot be written down.
    pub(super) fn encode(self, record: &CheckpointFile, since: Duration) -> Result<Vec<u8>, CheckpointError> {
        if self == OWN {
            let (bounds, lineages) = (record.snapshot.bounds(), record.snapshot.lineages());
            return match (bounds == Bounds::default(), lineages.is_empty()) {
                (true, true) => format::encode(self.version, &(since, record)),
                (false, true) => format::encode(self.version, &(since, record, bounds)),
                (_, false) => format::encode(self.version, &(since, record, bounds, lineages)),
            };
        }
        let CheckpointFile {
            owner,
            boot_id,
            wall,
            began: _,
            snapshot,
        } = record;
        format::encode(self.version, &(owner, boot_id, wall, snapshot))
    }

    /// The record of the bytes.
    ///
    /// # Errors
    /// They are not what [`Schema::encode`] makes.
    pub(super) fn decode(self, bytes: &[u8]) -> Result<Read, CheckpointError> {
        if self == OWN {
            let ((since, record), rest): ((_, CheckpointFile), _) = format::decode(self.version, bytes)?;
            let (bounds, rest): (Bounds, _) = optional(rest)?;
            let (lineages, _): (Vec<Lineage>, _) = optional(rest)?;
            let snapshot = record.snapshot.with_bounds(&bounds).with_lineages(&lineages);
            let record = CheckpointFile { snapshot, ..record };
            let since = Some(since);
            return Ok(Read { record, since });
        }
        let ((owner, boot_id, wall, snapshot), _): ((Owner, String, Duration, Snapshot), _) =
            format::decode(self.version, bytes)?;
        let record = CheckpointFile {
            owner,
            boot_id,
            wall,
            began: None,
            snapshot,
        };
        Ok(Read { record, since: None })
    }
}

/// The next optional part and the bytes after it; the default if there is none.
///
/// # Errors
/// The bytes are not such a part.
fn optional<T: DeserializeOwned + Default>(rest: &[u8]) -> Result<(T, &[u8]), CheckpointError> {
    if rest.is_empty() {
        return Ok((T::default(), rest));
    }
    Ok(postcard::take_from_bytes(rest)?)
}
