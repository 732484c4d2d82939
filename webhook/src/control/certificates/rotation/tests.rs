//! Tests of the steps of a rotation with real certificates.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LIFETIMES: Lifetimes = Lifetimes {
    leaf: DAY.saturating_mul(90),
    authority: DAY.saturating_mul(365),
    wait: MINUTE.saturating_mul(5),
    most_wait: DAY,
};
const SPREAD: Spread = Spread {
    is_stored: true,
    lagging_agents: 0,
};

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + DAY * 20_000
}

fn names() -> Vec<String> {
    ["a.svc", "b.svc"].map(str::to_owned).to_vec()
}

fn made() -> Material {
    fresh(&names(), start(), &LIFETIMES, "test").unwrap()
}

fn step(material: &Material, now: SystemTime, spread: Spread, demand: Option<&str>) -> Option<Material> {
    let names = names();
    let situation = Situation {
        names: &names,
        now,
        spread,
        demand,
    };
    next(material, &situation, &LIFETIMES).unwrap()
}

/// Material of each state of a demanded rotation, and the time after it.
fn rotated() -> (Vec<Material>, SystemTime) {
    let mut now = start() + DAY;
    let mut all = vec![made()];
    all.push(step(&all[0], now, SPREAD, Some("test")).unwrap());
    for _ in 0..3 {
        now += LIFETIMES.wait;
        let last = all.last().unwrap();
        all.push(step(last, now, SPREAD, None).unwrap());
    }
    (all, now)
}

fn verifies(serving: &Material, trusting: &Material, now: SystemTime) -> bool {
    let (serving, bundle) = (&serving.serving, trusting.bundle());
    check_serving(serving, &bundle, &names(), now).is_ok()
}

#[test]
fn a_rotation_passes_through_its_states_and_replaces_the_ca() {
    let (all, now) = rotated();
    let states: Vec<_> = all
        .iter()
        .map(|material| material.progress.state.name())
        .collect();
    assert_eq!(
        states,
        ["stable", "next-published", "new-leaf", "old-retired", "stable"]
    );
    let last = all.last().unwrap();
    assert_ne!(last.issuer.cert, all[0].issuer.cert);
    assert_eq!((&last.next, &last.cross, &last.old), (&None, &None, &None));
    assert_eq!(last.serving.cert.matches("BEGIN").count(), 1);
    assert_eq!(all[2].serving.cert.matches("BEGIN").count(), 2);
    for material in &all {
        check(material, &names(), now).unwrap();
    }
    assert_eq!(step(last, now + DAY, SPREAD, None), None);
}

#[test]
fn a_replica_and_a_client_one_state_apart_always_agree() {
    let (all, now) = rotated();
    for pair in all.windows(2) {
        let [before, after] = pair else { unreachable!() };
        let state = before.progress.state.name();
        assert!(verifies(before, after, now), "{state}: a replica that lags");
        assert!(verifies(after, before, now), "{state}: a client that lags");
    }
    // Until the new certificate stands alone, a client with the first bundle verifies it.
    assert!(all[..4].iter().all(|serving| verifies(serving, &all[0], now)));
    assert!(!verifies(&all[4], &all[0], now));
    assert!(!verifies(&all[0], &all[4], now));
}

#[test]
fn the_next_ca_waits_for_configurations_and_agents_and_at_most_a_day() {
    let published = rotated().0.remove(1);
    let since = start() + DAY;
    for spread in [
        Spread {
            is_stored: false,
            ..SPREAD
        },
        Spread {
            lagging_agents: 1,
            ..SPREAD
        },
    ] {
        assert_eq!(step(&published, since + DAY - MINUTE, spread, None), None);
        let after = step(&published, since + DAY, spread, None).unwrap();
        assert_eq!(after.progress.state, RotationState::NewLeaf);
        assert!(after.progress.reason.starts_with("the longest wait has passed: "));
    }
    assert_eq!(step(&published, since + MINUTE * 4, SPREAD, None), None);
    assert!(step(&published, since + MINUTE * 5, SPREAD, None).is_some());
}

#[test]
fn the_cross_certificate_stays_while_a_configuration_has_the_old_ca() {
    let retired = rotated().0.remove(3);
    let spread = Spread {
        is_stored: false,
        ..SPREAD
    };
    assert_eq!(step(&retired, start() + DAY * 30, spread, None), None);
}

#[test]
fn certificate_and_ca_are_renewed_after_two_thirds_of_their_lives() {
    let material = made();
    assert_eq!(step(&material, start() + DAY * 50, SPREAD, None), None);
    let renewed = step(&material, start() + DAY * 61, SPREAD, None).unwrap();
    assert_eq!(renewed.progress.state, RotationState::Stable);
    assert_eq!(renewed.issuer, material.issuer);
    assert_ne!(renewed.serving, material.serving);
    assert!(verifies(&renewed, &material, start() + DAY * 61));
    let old = Material {
        serving: material.serving.clone(),
        ..material
    };
    let due = step(&old, start() + DAY * 244, SPREAD, None).unwrap();
    assert_eq!(due.progress.state, RotationState::NextPublished);
}

#[test]
fn an_expired_certificate_is_renewed_and_an_expired_ca_replaced_at_once() {
    let material = made();
    let renewed = step(&material, start() + DAY * 100, Spread::default(), None).unwrap();
    assert_eq!(renewed.issuer, material.issuer);
    let replaced = step(&material, start() + DAY * 400, Spread::default(), None).unwrap();
    assert_ne!(replaced.issuer, material.issuer);
    assert_eq!(replaced.progress.state, RotationState::Stable);
    let (all, _) = rotated();
    let over = step(&all[1], start() + DAY * 366, Spread::default(), None).unwrap();
    assert_eq!(over.progress.state, RotationState::NewLeaf);
    assert!(verifies(&over, &all[1], start() + DAY * 366));
}

#[test]
fn a_clock_that_went_back_changes_nothing() {
    let (all, _) = rotated();
    for material in &all {
        let back = start() - DAY * 400;
        assert_eq!(
            step(material, back, SPREAD, None),
            None,
            "{:?}",
            material.progress
        );
    }
}

#[test]
fn a_certificate_without_a_name_is_replaced() {
    let material = fresh(&names()[..1], start(), &LIFETIMES, "test").unwrap();
    let renewed = step(&material, start(), SPREAD, None).unwrap();
    check(&renewed, &names(), start()).unwrap();
    assert_eq!(renewed.issuer, material.issuer);
}

#[test]
fn keys_that_do_not_fit_are_errors() {
    let (mut material, other) = (made(), made());
    material.issuer.key = other.issuer.key;
    let names = names();
    let situation = Situation {
        names: &names,
        now: start(),
        spread: SPREAD,
        demand: None,
    };
    assert!(next(&material, &situation, &LIFETIMES).is_err());
    assert!(check(&material, &names, start()).is_err());
}
