//! [`PendingQuotaHandle`]: the record of an admitted quota, which ends unless its answer is sent.

use std::{fmt, sync::Arc};

use headroom_rules::quota::QuotaKey;

use super::index::QuotaIndex;
use crate::store::pending_admissions::PendingAdmission;

/// Ends a claim, unless it is kept.
pub(super) struct PendingQuotaHandle {
    index: Arc<QuotaIndex>,
    key: QuotaKey,
    number: u64,
    is_kept: bool,
}

impl PendingQuotaHandle {
    /// The claim of that number on an object.
    pub(super) fn new(index: Arc<QuotaIndex>, key: QuotaKey, number: u64) -> Self {
        Self {
            index,
            key,
            number,
            is_kept: false,
        }
    }
}

impl PendingAdmission for PendingQuotaHandle {
    fn keep(mut self: Box<Self>) {
        self.is_kept = true;
        self.index.keep(&self.key, self.number);
    }
}

impl Drop for PendingQuotaHandle {
    fn drop(&mut self) {
        if !self.is_kept {
            self.index.end(&self.key, self.number);
        }
    }
}

impl fmt::Debug for PendingQuotaHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingQuotaHandle")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
