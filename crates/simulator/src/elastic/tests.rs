//! Tests of elastic fleets: nodes end, pods are rolled, Jobs hold their share, and knowledge reaches new nodes.

use headroom_domain::{policy::Bounds, ratio::Cents};

use super::*;
use crate::{policy::Settings, source::Machine};

fn rows_of(days: usize) -> Vec<ElasticRow> {
    let frames = days * DAY;
    let loads = [Synthetic::new(5, 8, frames).unwrap()];
    let settings = Settings {
        resource: Resource::Cpu,
        machine: Machine::for_resource(Resource::Cpu),
        bounds: Bounds {
            min: Cents(100),
            max: Cents(200),
        },
        theta_ppm: 900_000,
        is_calibrated: true,
        has_brakes: false,
        oracle_ppm: 1_000_000,
    };
    let run = |source: &'static Synthetic| Run {
        source,
        nodes: 8,
        frames,
        cv: 0.5,
        settings,
    };
    rows(Box::leak(Box::new(loads)), run, |_| {}).unwrap()
}

#[test]
fn workloads_give_an_elastic_fleet_what_pods_alone_do_not() {
    let rows = rows_of(5);
    let gain = |fleet: &str, name: &str| {
        let row = rows.iter().find(|row| row.fleet == fleet && row.name == name);
        row.unwrap().requests_gained_pct
    };
    assert!(gain("static", OURS) > 2.0, "{rows:#?}");
    assert!(gain("elastic", OURS) < 0.5 * gain("static", OURS), "{rows:#?}");
    assert!(
        gain("elastic", WITH_WORKLOADS) > 2.0 * gain("elastic", OURS),
        "{rows:#?}"
    );
}
