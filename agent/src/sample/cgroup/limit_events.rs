//! `LimitEvents` counts how often kubepods met its own memory limit.

use super::{Tree, Version, parsed};
use crate::sample::{
    SampleError,
    field::{number, required},
};

/// Number of times kubepods met its own limit, since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitEvents {
    /// Times the limit was met.
    pub hits: u64,
    /// Times nothing more could be reclaimed; `None` with version 1, which books a kill to the cgroup of the process
    /// that is killed, whosever limit it was.
    pub ooms: Option<Ooms>,
}

/// Times nothing more could be reclaimed at a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ooms {
    pub own: u64,
    /// At that and at all limits of pods and containers below.
    pub with_below: u64,
}

impl LimitEvents {
    /// Increase since an earlier reading.
    pub(in crate::sample) fn since(&self, earlier: &Self) -> Self {
        let Self { hits, ooms } = self;
        Self {
            hits: hits.saturating_sub(earlier.hits),
            ooms: ooms.zip(earlier.ooms).map(|(now, then)| Ooms {
                own: now.own.saturating_sub(then.own),
                with_below: now.with_below.saturating_sub(then.with_below),
            }),
        }
    }
}

impl Tree {
    pub(super) fn limit_events(&self) -> Result<Option<LimitEvents>, SampleError> {
        let file = |name: &str| self.path.join(name);
        match self.version {
            Version::V1 => {
                let hits = parsed(&file("memory.failcnt"), |text| {
                    number(text.trim(), "memory.failcnt")
                })?;
                Ok(hits.map(|hits| LimitEvents { hits, ooms: None }))
            }
            Version::V2 => {
                let own = parsed(&file("memory.events.local"), |text| {
                    Ok((required(text, "max")?, required(text, "oom")?))
                })?;
                let below = parsed(&file("memory.events"), |text| required(text, "oom"))?;
                Ok(own.zip(below).map(|((hits, own), with_below)| LimitEvents {
                    hits,
                    ooms: Some(Ooms { own, with_below }),
                }))
            }
        }
    }
}
