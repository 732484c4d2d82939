//! Days that failed once, each with what was wrong.

use headroom_domain::{
    policy::{Bounds, Mode},
    ratio::Cents,
    resource::PerResource,
};

use super::{
    DayStep::{self, Deaf, Delete, End, Frames, Resize, StartAnew, Use},
    SimulatedDays,
};

/// The model was wrong: what the agent had reported before was expected of a replica that has just started.
///
/// The replica that decides does not receive that pods end, so their amounts stay published, more than the agent
/// reports. After the restart it knows the pods and has no report yet: it keeps the stored value until the agent reports.
#[test]
fn a_replica_that_starts_anew_holds_what_is_stored_until_the_agent_reports() {
    let cpu = Bounds {
        min: Cents::ONE,
        max: Cents(200),
    };
    let steps: Vec<DayStep> = vec![
        Frames(7),
        Resize { pod: 11, percent: 20 },
        Frames(14),
        Deaf {
            replica: 0,
            is_deaf: true,
        },
        Use {
            pod: 15,
            percent: 24,
            burst: 0,
        },
        Frames(1),
        End(7),
        Delete { pod: 13, frames: 0 },
        StartAnew(0),
    ];
    let days = SimulatedDays {
        raw: (2_584, 1_000),
        reserved: 0,
        mode: Mode::Auto,
        bounds: PerResource {
            cpu,
            memory: Bounds::OFF,
        },
        waiting: vec![
            (542, 240),
            (206, 160),
            (387, 120),
            (310, 90),
            (206, 90),
            (258, 310),
        ],
        steps,
    };
    assert_eq!(days.check(), Ok(()));
}
