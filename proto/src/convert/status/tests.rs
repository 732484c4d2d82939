//! Tests of the status conversions: a status with a different number in each figure round-trips.

use super::*;
use crate::status::sample::status;

#[test]
fn a_status_round_trips() {
    for status in [status(), Status::default()] {
        let sent = wire::AgentStatus::from(status.clone());
        assert_eq!(Status::try_from(sent), Ok(status));
    }
}

#[test]
fn an_invalid_status_is_rejected_by_field() {
    let refused = |change: fn(&mut wire::AgentStatus)| {
        let mut sent = wire::AgentStatus::from(status());
        change(&mut sent);
        Status::try_from(sent).expect_err("refused").field
    };
    assert_eq!(refused(|sent| sent.resources[0].brake = 256), "resources.brake");
    assert_eq!(
        refused(|sent| sent.streams[0].peer = "here".to_owned()),
        "streams.peer"
    );
    assert_eq!(
        refused(|sent| sent.streams[0].state = "lost".to_owned()),
        "streams.state"
    );
    let few = |sent: &mut wire::AgentStatus| {
        sent.measured.remove("from_ns");
    };
    assert_eq!(refused(few), "measured");
}
