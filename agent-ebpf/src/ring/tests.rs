//! Tests of `CpuRing`: busy time by window, sampled waits, missed switches and wraps. `agent/src/sample/ring/tests.rs` tests
//! the agent's reconstruction of windows.

use core::mem::{offset_of, size_of};

use super::*;

const W: u64 = WINDOW_NS;

fn slot(ring: &CpuRing, window: u64) -> Slot {
    let slot = ring.slots[window as usize % SLOTS];
    assert_eq!(u64::from(slot.win), window, "window {window} has no slot");
    slot
}

fn settled(now: u64, was_busy: bool) -> CpuRing {
    let mut ring = CpuRing::default();
    ring.settle(now, was_busy);
    ring
}

#[test]
fn busy_time_inside_one_window_is_the_time_between_transitions() {
    let mut ring = settled(100 * W, false);
    ring.turn(100 * W + 1_000, true);
    ring.turn(100 * W + 5_000, false);
    ring.turn(100 * W + 6_000, true);
    ring.turn(100 * W + 6_500, false);
    assert_eq!(slot(&ring, 100).whole_busy_ns(), 4_500);
    assert_eq!(ring.busy, 4_500);
    assert!(!slot(&ring, 100).is_busy_before() && !slot(&ring, 100).is_busy_after());
}

#[test]
fn busy_time_across_windows_is_split_at_their_borders() {
    let mut ring = settled(100 * W, false);
    ring.turn(100 * W + 1_000, true);
    ring.turn(103 * W + 2_000, false);
    assert_eq!(u64::from(slot(&ring, 100).whole_busy_ns()), W - 1_000);
    assert_eq!(slot(&ring, 103).whole_busy_ns(), 2_000);
    assert!(slot(&ring, 103).is_busy_before(), "101 and 102 were busy");
    assert_eq!(ring.busy, 3 * W + 1_000);
}

#[test]
fn first_switch_sets_the_state_before_it() {
    let ring = settled(100 * W + 7_000, true);
    assert!(slot(&ring, 100).is_busy_before() && slot(&ring, 100).is_busy_after());
    assert_eq!((ring.last, ring.busy, ring.state), (100 * W, 0, BUSY));

    let mut turned = settled(100 * W + 7_000, true);
    turned.turn(100 * W + 7_000, false);
    assert_eq!(slot(&turned, 100).whole_busy_ns(), 7_000);
    assert_eq!(turned.busy, 7_000);
}

#[test]
fn slot_of_an_older_window_is_reset() {
    let mut ring = settled(100 * W, false);
    ring.turn(100 * W + 10, true);
    ring.turn(100 * W + 20, false);
    ring.turn(356 * W + 500, true);
    let Slot {
        win,
        busy,
        wait,
        end: _,
    } = slot(&ring, 356);
    assert_eq!((win, busy, wait), (356, 0, 0));
    assert_eq!(u64::from(slot(&ring, 356).whole_busy_ns()), W - 500);
}

#[test]
fn wait_that_ends_in_a_silent_window_leaves_busy_time_alone() {
    let mut ring = settled(100 * W, false);
    ring.turn(100 * W + 10, true);
    ring.add_wait(102 * W + 300, 77);
    ring.add_wait(102 * W + 400, 3);
    assert_eq!(slot(&ring, 102).wait, 80);
    assert_eq!(u64::from(slot(&ring, 102).whole_busy_ns()), W, "busy all along");
    ring.turn(102 * W + 500, false);
    assert_eq!(slot(&ring, 102).whole_busy_ns(), 500);
    assert_eq!((ring.wait, ring.busy), (80, 2 * W + 490));
}

#[test]
fn clock_that_steps_back_takes_no_busy_time_away() {
    let mut ring = settled(100 * W, false);
    ring.turn(100 * W + 1_000, true);
    ring.turn(100 * W + 990, false);
    assert_eq!((ring.busy, ring.last), (0, 100 * W + 1_000));
    assert_eq!(slot(&ring, 100).whole_busy_ns(), 0);
}

#[test]
fn copy_taken_during_an_update_is_not_whole() {
    let mut ring = settled(100 * W, false);
    assert!(ring.is_whole());
    guard::open(&mut ring);
    assert!(!ring.is_whole());
    ring.turn(100 * W + 10, true);
    guard::close(&mut ring);
    assert!(ring.is_whole());

    // The copy's head is older than its tail: the update ran while the copy was made.
    let head = ring;
    guard::open(&mut ring);
    ring.turn(100 * W + 20, false);
    guard::close(&mut ring);
    let torn = CpuRing {
        state: head.state,
        closed: head.closed,
        ..ring
    };
    assert!(!torn.is_whole());
}

#[test]
fn guard_is_in_the_first_and_the_last_word_that_the_kernel_copies() {
    let word = size_of::<u64>();
    assert_eq!(offset_of!(CpuRing, closed) / word, 0);
    assert_eq!(
        offset_of!(CpuRing, opened) / word,
        size_of::<CpuRing>() / word - 1
    );
}

#[test]
fn window_numbers_wrap_after_417_days() {
    let wrap = (1_u64 << 32) * W;
    let mut ring = settled(wrap - 256 * W, false);
    ring.turn(wrap - 1_000, true);
    ring.turn(wrap + 1_000, false);
    assert_eq!(
        ring.slots[0],
        Slot {
            win: 0,
            busy: 1_000,
            wait: 0,
            end: BUSY_BEFORE + 1_000
        }
    );
}

#[test]
fn task_whose_arrival_was_missed_is_busy_for_as_long_as_it_ran() {
    let mut ring = settled(100 * W, false);
    assert!(ring.agrees(false) && !ring.agrees(true));
    ring.correct(103 * W, true, W + 2_000);
    ring.turn(103 * W, false);
    assert_eq!((ring.busy, ring.missed), (W + 2_000, 1));
    assert_eq!(slot(&ring, 101).whole_busy_ns(), 2_000);
    assert!(slot(&ring, 103).is_busy_before(), "102 was busy");

    ring.correct(103 * W + 500, true, 9 * W);
    ring.turn(103 * W + 500, false);
    assert_eq!(ring.busy, W + 2_500, "no longer than since the last transition");
}

#[test]
fn idle_task_whose_arrival_was_missed_ends_the_recorded_busy_time() {
    let mut ring = settled(100 * W, false);
    ring.turn(100 * W + 10, true);
    ring.correct(105 * W, false, 0);
    ring.turn(105 * W, true);
    assert_eq!((ring.busy, ring.missed), (0, 1));
    assert_eq!(slot(&ring, 100).whole_busy_ns(), 0);
    assert!(!slot(&ring, 105).is_busy_before(), "101 to 104 were idle");
}
