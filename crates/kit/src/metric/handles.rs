//! A cache of one metric's handles by label values.
//!
//! It saves look-ups: each makes a key of all labels, hashes it and takes a lock.

use std::{ptr, sync::OnceLock};

/// Most handles that are kept; what comes later is looked up each time. Few metrics have more series, and each handle is
/// found by going through those before it.
const KEPT: usize = 32;

/// Handles by label values, in the order in which they were first asked for. Nothing is ever taken out.
pub(super) struct Handles<K, const N: usize>([OnceLock<([&'static str; N], K)>; KEPT]);

impl<K: Clone, const N: usize> Handles<K, N> {
    /// None.
    pub(super) const fn new() -> Self {
        Self([const { OnceLock::new() }; KEPT])
    }

    /// The handle with these label values, looked up by `find` if it is not kept.
    pub(super) fn get(&self, values: [&'static str; N], find: impl Fn() -> K) -> K {
        for slot in &self.0 {
            // Another thread may be first, for other values.
            let (own, handle) = slot.get_or_init(|| (values, find()));
            if is_same(own, &values) {
                return handle.clone();
            }
        }
        find()
    }
}

/// True if the values are the same pieces of memory, which is enough: a text that is there twice has two handles of one
/// series.
fn is_same<const N: usize>(own: &[&'static str; N], values: &[&'static str; N]) -> bool {
    own.iter().zip(values).all(|(own, value)| ptr::eq(*own, *value))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Texts with addresses of their own.
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
    fn more_than_are_kept_are_looked_up_each_time() {
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
