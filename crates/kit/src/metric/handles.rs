//! Caches one metric's handles by label values.
//!
//! It saves look-ups: each look-up builds a key of all labels, hashes it and acquires a lock.

use std::{ptr, sync::OnceLock};

/// Maximum number of cached handles; further handles are looked up each time. Few metrics have more series, and the
/// cache is searched linearly.
const KEPT: usize = 32;

/// Handles by label values, in the order of their first use. Entries are never removed.
pub(super) struct Handles<K, const N: usize>([OnceLock<([&'static str; N], K)>; KEPT]);

impl<K: Clone, const N: usize> Handles<K, N> {
    pub(super) const fn new() -> Self {
        Self([const { OnceLock::new() }; KEPT])
    }

    /// Returns the handle with these label values, looked up by `find` if it is not cached.
    pub(super) fn get(&self, values: [&'static str; N], find: impl Fn() -> K) -> K {
        for slot in &self.0 {
            // Another thread may fill the slot first with other values.
            let (own, handle) = slot.get_or_init(|| (values, find()));
            if is_same(own, &values) {
                return handle.clone();
            }
        }
        find()
    }
}

/// Returns true if both slices contain the same pieces of memory. That is sufficient: two equal texts at different
/// addresses get two handles of one series.
fn is_same<const N: usize>(own: &[&'static str; N], values: &[&'static str; N]) -> bool {
    own.iter().zip(values).all(|(own, value)| ptr::eq(*own, *value))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    static MANY: [[u8; 1]; KEPT + 1] = [[b'x'; 1]; KEPT + 1];

    #[test]
    fn a_handle_is_looked_up_once_for_each_combination_of_labels() {
        let (handles, found) = (Handles::<u32, 2>::new(), Cell::new(0));
        let get = |values| {
            handles.get(values, || {
                found.set(found.get() + 1);
                found.get()
            })
        };
        assert_eq!((get(["a", "x"]), get(["a", "y"]), get(["b", "x"])), (1, 2, 3));
        assert_eq!((get(["b", "x"]), get(["a", "y"]), get(["a", "x"])), (3, 2, 1));
        assert_eq!(found.get(), 3);
    }

    #[test]
    fn handles_beyond_the_cache_are_looked_up_each_time() {
        let (handles, found) = (Handles::<usize, 1>::new(), Cell::new(0));
        for _ in 0..2 {
            for (at, text) in MANY.iter().enumerate() {
                let handle = handles.get([str::from_utf8(text).unwrap()], || {
                    found.set(found.get() + 1);
                    at
                });
                assert_eq!(handle, at);
            }
        }
        assert_eq!(found.get(), KEPT + 2);
    }
}
