//! Decides the next step of the Secret's content, by time and by the state of those who trust it. Pure.
//!
//! ```text
//! stable -> next-published -> new-leaf -> old-retired -> stable
//! ```
//!
//! In each state, every bundle that a client may still have verifies every certificate that a replica may still serve:
//! the old CA signs a cross certificate for the next CA, and the new certificate is served together with it until no
//! configuration has the old CA any more.

use std::time::{Duration, SystemTime};

use headroom_kit::tls::{
    PemPair, TlsError,
    authority::{self, Authority},
    verify_chain,
};

use super::material::{Material, Progress, RotationState};

/// Durations of certificates and of a rotation.
#[derive(Debug, Clone, Copy)]
pub struct Lifetimes {
    pub leaf: Duration,
    pub authority: Duration,
    /// The least time in a state, so that API servers, replicas and kubelets have seen it.
    pub wait: Duration,
    /// The longest wait for agents. After it, the rotation proceeds.
    pub most_wait: Duration,
}

/// State of those who trust the bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// True if every webhook configuration and the agents' ConfigMap contain the bundle.
    pub(super) is_stored: bool,
    /// Agents that have not reported this bundle.
    pub(super) lagging_agents: u32,
}

/// Inputs of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) names: &'a [String],
    pub(super) now: SystemTime,
    pub(super) spread: Spread,
    /// Reason of an administrator who demands a rotation.
    pub(super) demand: Option<&'a str>,
}

/// New CA and certificate, trusted by no client yet.
///
/// # Errors
/// An invalid name.
pub(super) fn fresh(
    names: &[String],
    now: SystemTime,
    lifetimes: &Lifetimes,
    reason: &str,
) -> Result<Material, TlsError> {
    let issuer = Authority::create(now, lifetimes.authority)?;
    Ok(Material {
        serving: issuer.issue(names, now, lifetimes.leaf)?,
        issuer: issuer.pem().clone(),
        next: None,
        cross: None,
        old: None,
        progress: Progress {
            state: RotationState::Stable,
            since_s: seconds(now),
            reason: reason.to_owned(),
        },
    })
}

/// Checks that the parts fit: each key its certificate, and the serving certificate its bundle and names.
///
/// # Errors
/// They do not fit, or a certificate has expired.
pub(super) fn check(material: &Material, names: &[String], now: SystemTime) -> Result<(), TlsError> {
    Authority::load(&material.issuer)?;
    if let Some(next) = &material.next {
        Authority::load(next)?;
    }
    check_serving(&material.serving, &material.bundle(), names, now)
}

/// Checks a serving certificate as clients do that trust only the bundle.
///
/// # Errors
/// A client would refuse it, or its key belongs to another certificate.
pub(super) fn check_serving(
    serving: &PemPair,
    bundle: &str,
    names: &[String],
    now: SystemTime,
) -> Result<(), TlsError> {
    authority::check_pair(serving)?;
    for name in names {
        verify_chain(serving.cert.as_bytes(), bundle.as_bytes(), name, now)?;
    }
    Ok(())
}

/// The next content of the Secret; `None` if nothing is due.
///
/// # Errors
/// The keys do not fit their certificates, or a certificate cannot be issued.
pub(super) fn next(
    material: &Material,
    situation: &Situation<'_>,
    lifetimes: &Lifetimes,
) -> Result<Option<Material>, TlsError> {
    let Situation { names, now, .. } = *situation;
    Authority::load(&material.issuer)?;
    let is_ca_over = seconds(now) > authority::validity_s(&material.issuer.cert)?.1;
    if is_ca_over && material.progress.state != RotationState::NextPublished {
        return fresh(names, now, lifetimes, "CA and certificate had expired").map(Some);
    }
    let step = match material.progress.state {
        RotationState::Stable => begin(material, situation, lifetimes)?,
        RotationState::NextPublished => switch_leaf(material, situation, lifetimes, is_ca_over)?,
        RotationState::NewLeaf => retire_old(material, situation, lifetimes),
        RotationState::OldRetired => finish(material, situation, lifetimes),
    };
    if step.is_some() {
        return Ok(step);
    }
    renew_leaf(material, situation, lifetimes)
}

/// From `stable`: a next CA, if the CA is due or a rotation is demanded.
fn begin(
    material: &Material,
    situation: &Situation<'_>,
    lifetimes: &Lifetimes,
) -> Result<Option<Material>, TlsError> {
    let now = situation.now;
    let is_due = seconds(now) >= authority::renewal_s(&material.issuer.cert)?;
    let reason = match situation.demand {
        Some(reason) => format!("an administrator demanded the rotation: {reason}"),
        None if is_due => "two thirds of the CA's life have passed".to_owned(),
        None => return Ok(None),
    };
    let next = Authority::create(now, lifetimes.authority)?;
    Ok(Some(Material {
        next: Some(next.pem().clone()),
        progress: step_to(RotationState::NextPublished, now, reason),
        ..material.clone()
    }))
}

/// From `next-published`: the next CA issues the certificate, once clients trust it.
fn switch_leaf(
    material: &Material,
    situation: &Situation<'_>,
    lifetimes: &Lifetimes,
    is_ca_over: bool,
) -> Result<Option<Material>, TlsError> {
    let Situation {
        names, now, spread, ..
    } = *situation;
    let waited = waited(material, now);
    let Spread {
        is_stored,
        lagging_agents,
    } = spread;
    let reason = if is_ca_over {
        "the previous CA has expired".to_owned()
    } else if waited < lifetimes.wait {
        return Ok(None);
    } else if is_stored && lagging_agents == 0 {
        "all configurations and all agents have the next CA".to_owned()
    } else if waited >= lifetimes.most_wait {
        format!("the longest wait has passed: {}", missing(spread))
    } else {
        return Ok(None);
    };
    let Some(next) = &material.next else {
        return Ok(None);
    };
    let next = Authority::load(next)?;
    let mut serving = next.issue(names, now, lifetimes.leaf)?;
    let old = Authority::load(&material.issuer)?;
    let cross = old.cross_sign(&next, now)?;
    serving.cert.push_str(&cross);
    Ok(Some(Material {
        issuer: next.pem().clone(),
        serving,
        next: None,
        cross: Some(cross),
        old: Some(material.issuer.cert.clone()),
        progress: step_to(RotationState::NewLeaf, now, reason),
    }))
}

/// From `new-leaf`: the old CA leaves the bundle, once every replica serves the new certificate.
fn retire_old(material: &Material, situation: &Situation<'_>, lifetimes: &Lifetimes) -> Option<Material> {
    let now = situation.now;
    if waited(material, now) < lifetimes.wait {
        return None;
    }
    let reason = "every replica had time to load the certificate of the new CA".to_owned();
    Some(Material {
        old: None,
        progress: step_to(RotationState::OldRetired, now, reason),
        ..material.clone()
    })
}

/// From `old-retired`: the cross certificate is no longer served, once no configuration has the old CA alone.
fn finish(material: &Material, situation: &Situation<'_>, lifetimes: &Lifetimes) -> Option<Material> {
    let now = situation.now;
    let Situation { spread, .. } = *situation;
    let is_spread =
        spread.is_stored && (spread.lagging_agents == 0 || waited(material, now) >= lifetimes.most_wait);
    if waited(material, now) < lifetimes.wait || !is_spread {
        return None;
    }
    let cross = material.cross.as_deref().unwrap_or_default();
    let leaf = material.serving.cert.strip_suffix(cross);
    let serving = PemPair {
        cert: leaf.unwrap_or(&material.serving.cert).to_owned(),
        key: material.serving.key.clone(),
    };
    let reason = "no configuration has the previous CA any more".to_owned();
    Some(Material {
        serving,
        cross: None,
        progress: step_to(RotationState::Stable, now, reason),
        ..material.clone()
    })
}

/// A new certificate of the same CA, if the current one is due or has expired, or lacks a name.
fn renew_leaf(
    material: &Material,
    situation: &Situation<'_>,
    lifetimes: &Lifetimes,
) -> Result<Option<Material>, TlsError> {
    let Situation { names, now, .. } = *situation;
    let is_due = seconds(now) >= authority::renewal_s(&material.serving.cert)?;
    // A clock that went back renews nothing.
    let (from_s, _) = authority::validity_s(&material.serving.cert)?;
    let at = now.max(SystemTime::UNIX_EPOCH + Duration::from_secs(from_s.unsigned_abs()));
    let is_good = check_serving(&material.serving, &material.bundle(), names, at).is_ok();
    if !is_due && is_good {
        return Ok(None);
    }
    let mut serving = Authority::load(&material.issuer)?.issue(names, now, lifetimes.leaf)?;
    serving
        .cert
        .push_str(material.cross.as_deref().unwrap_or_default());
    let reason = if is_good {
        "two thirds of the certificate's life have passed"
    } else {
        "the certificate was not valid for all names at this time"
    };
    Ok(Some(Material {
        serving,
        progress: Progress {
            reason: reason.to_owned(),
            ..material.progress.clone()
        },
        ..material.clone()
    }))
}

/// Description of who does not have the bundle yet.
pub(super) fn missing(spread: Spread) -> String {
    let Spread {
        is_stored,
        lagging_agents,
    } = spread;
    let configurations = if is_stored {
        "all configurations have the bundle"
    } else {
        "not all configurations have the bundle"
    };
    format!("{configurations}, {lagging_agents} agents have not reported it")
}

fn step_to(state: RotationState, now: SystemTime, reason: String) -> Progress {
    Progress {
        state,
        since_s: seconds(now),
        reason,
    }
}

/// Time in the current state; zero if the clock went back.
fn waited(material: &Material, now: SystemTime) -> Duration {
    let waited_s = seconds(now).saturating_sub(material.progress.since_s);
    Duration::from_secs(u64::try_from(waited_s).unwrap_or_default())
}

/// Seconds since the Unix epoch.
pub(super) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
