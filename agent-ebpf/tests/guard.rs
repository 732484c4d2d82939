//! Tests of the guard of rings on a machine that may reorder all loads and stores without a barrier between them. loom tries
//! each order in which a writer's stores can reach a reader.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::panic::catch_unwind;

use headroom_agent_ebpf::ring::guard::{self, Guard};
use loom::{
    model,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering, fence},
    },
    thread,
};

/// Updates that the writer makes. After update n both words of the ring are n.
const UPDATES: u32 = 2;

/// Barriers that the machine respects.
#[derive(Debug, Clone, Copy)]
struct MachineOrder {
    /// Barrier of the writer's guard.
    stores: bool,
    /// Barriers of the reader before and after the copy of the words.
    copies: [bool; 2],
}

/// A ring of two words with its guard.
#[derive(Debug, Default)]
struct GuardedWords {
    opened: AtomicU32,
    closed: AtomicU32,
    words: [AtomicU32; 2],
}

struct Writer<'r> {
    ring: &'r GuardedWords,
    order: MachineOrder,
}

impl Guard for Writer<'_> {
    fn opened(&self) -> u32 {
        self.ring.opened.load(Ordering::Relaxed)
    }

    fn set_opened(&mut self, updates: u32) {
        self.ring.opened.store(updates, Ordering::Relaxed);
    }

    fn set_closed(&mut self, updates: u32) {
        self.ring.closed.store(updates, Ordering::Relaxed);
    }

    fn order_stores(&mut self) {
        if self.order.stores {
            fence(Ordering::SeqCst);
        }
    }
}

/// Writes, and meanwhile reads the words in this order: a copy that passes as whole must be the state after the number of
/// updates in the guard.
fn write_and_read(order: MachineOrder, reading: [usize; 2]) {
    model(move || {
        let ring = Arc::new(GuardedWords::default());
        let written = Arc::clone(&ring);
        let writing = thread::spawn(move || {
            let mut writer = Writer {
                ring: &written,
                order,
            };
            for update in 1..=UPDATES {
                guard::open(&mut writer);
                for word in &written.words {
                    word.store(update, Ordering::Relaxed);
                }
                guard::close(&mut writer);
            }
        });
        let keep_order = |is_kept: bool| {
            if is_kept {
                fence(Ordering::SeqCst);
            }
        };
        let closed = ring.closed.load(Ordering::Relaxed);
        keep_order(order.copies[0]);
        let words = reading.map(|word| ring.words[word].load(Ordering::Relaxed));
        keep_order(order.copies[1]);
        let opened = ring.opened.load(Ordering::Relaxed);
        if guard::is_whole(closed, opened) {
            assert_eq!(words, [closed; 2], "after {closed} updates");
        }
        writing.join().expect("the writer does not panic");
    });
}

/// Returns true if a half-done update passes as whole in some order of events.
fn is_fooled(order: MachineOrder) -> bool {
    [[0, 1], [1, 0]]
        .into_iter()
        .any(|reading| catch_unwind(|| write_and_read(order, reading)).is_err())
}

#[test]
fn a_copy_that_passes_as_whole_has_no_half_of_an_update() {
    assert!(!is_fooled(MachineOrder {
        stores: true,
        copies: [true; 2],
    }));
}

#[test]
fn without_a_store_barrier_the_reader_accepts_half_an_update() {
    assert!(is_fooled(MachineOrder {
        stores: false,
        copies: [true; 2],
    }));
}

#[test]
fn without_a_load_barrier_the_reader_accepts_half_an_update() {
    for copies in [[false, true], [true, false]] {
        assert!(is_fooled(MachineOrder { stores: true, copies }), "{copies:?}");
    }
}
