//! Tests that the size of a review bounds its memory and work, whatever the review contains.

#[path = "../../../../../crates/testbed/src/pathological.rs"]
#[expect(
    unreachable_pub,
    reason = "a file of the testbed, which depends on this crate"
)]
mod shapes;

use allocation_counter::AllocationInfo;

use self::shapes::shapes;
use super::*;
use crate::admission::draft::take_passed;

/// A body that is posted, in bytes.
const BODY: usize = 3_000_000;
/// The most memory that answering takes at a time, besides the body, in bytes.
const MOST_BYTES: u64 = 16 << 20;
/// The most allocations.
const MOST_ALLOCATIONS: u64 = 50_000;
/// How often a byte of the body is gone past, at most.
const MOST_PASSES: usize = 8;

#[test]
fn whatever_is_in_a_review_memory_and_work_are_bounded_by_its_size() {
    let hint = json!({
        "v": 1, "uid": "u1", "boot": "b", "seq": 1, "mode": "FULL", "timing": "production", "why": [],
        "cpu": {"pub": 150, "p": 1000, "brake": 0}, "memory": {"pub": 100, "p": 1000, "brake": 0},
    });
    let world = FixtureCluster {
        mode: Some("auto".to_owned()),
        hint: Some(hint),
        ..FixtureCluster::default()
    };
    let router = router(world);
    for (path, sub_resource, user) in [
        ("/mutate-node-status", "status", "system:node:n1"),
        ("/validate-node", "", "somebody"),
    ] {
        let endpoint = router.endpoint(path).unwrap();
        for shape in shapes(sub_resource, user) {
            let body = shape.body(BODY);
            assert!((BODY - 100..=BODY).contains(&body.len()), "{}", shape.name);
            take_passed();
            let mut status = None;
            let AllocationInfo {
                count_total,
                bytes_max,
                ..
            } = allocation_counter::measure(|| {
                let deadline = Deadline::after(Instant::now(), Duration::from_secs(600));
                let answer = router.answer(endpoint, body.as_bytes(), deadline);
                status = Some((answer.status.as_u16(), answer.decision.outcome));
            });
            let passes = take_passed().div_ceil(body.len());
            let is_bounded =
                bytes_max <= MOST_BYTES && count_total <= MOST_ALLOCATIONS && passes <= MOST_PASSES;
            assert!(
                is_bounded,
                "{path} {}: {status:?}, {bytes_max} bytes, {count_total} allocations, {passes} passes",
                shape.name
            );
        }
    }
}
