//! Caches the results of token reviews for a short time, by the hash of the token.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Key of a token, from which the token cannot be recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenKey([u8; 32]);

/// Values by key, each until its time is over. When it is full, nothing is added until something has ended.
#[derive(Debug)]
pub(super) struct Cache<T> {
    most: usize,
    entries: Mutex<HashMap<TokenKey, CachedReview<T>>>,
}

#[derive(Debug)]
struct CachedReview<T> {
    value: T,
    until: Instant,
}

impl TokenKey {
    /// The key of a token.
    pub(super) fn hash(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

impl<T: Clone> Cache<T> {
    /// Cache of up to `most` entries.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            entries: Mutex::default(),
        }
    }

    /// Cached value, unless it has expired.
    pub(super) fn get(&self, key: &TokenKey) -> Option<T> {
        let entries = self.lock();
        let entry = entries.get(key).filter(|entry| Instant::now() < entry.until)?;
        Some(entry.value.clone())
    }

    /// Keeps a value for its lifetime, if the cache has free capacity.
    pub(super) fn insert(&self, key: TokenKey, value: T, lifetime: Duration) {
        let now = Instant::now();
        let mut entries = self.lock();
        // Only after a review, and these are paced: a full cache is not searched more often.
        if entries.len() >= self.most {
            entries.retain(|_, entry| now < entry.until);
        }
        if entries.len() < self.most {
            let until = now + lifetime;
            entries.insert(key, CachedReview { value, until });
        }
    }

    pub(super) fn remove(&self, key: &TokenKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenKey, CachedReview<T>>> {
        // Every change is one insertion or removal: a panic elsewhere leaves nothing half done.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_value_is_known_until_its_time_is_over() {
        let cache = Cache::new(2);
        let [a, b, c] = ["a", "b", "c"].map(TokenKey::hash);
        cache.insert(a, 1, SECOND);
        cache.insert(b, 2, SECOND * 3);
        cache.insert(c, 3, SECOND);
        assert_eq!([a, b, c].map(|key| cache.get(&key)), [Some(1), Some(2), None]);
        advance(SECOND).await;
        assert_eq!([a, b].map(|key| cache.get(&key)), [None, Some(2)]);
        cache.insert(c, 3, SECOND);
        cache.remove(&b);
        assert_eq!([b, c].map(|key| cache.get(&key)), [None, Some(3)]);
    }
}
