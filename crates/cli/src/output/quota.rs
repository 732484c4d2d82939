//! Renders the replicas' data about ElasticQuotas for people and as JSON.

pub(crate) mod explained;
pub(crate) mod json;
mod resources;
pub(crate) mod tree;

use std::{fmt, time::Duration};

use headroom_proto::v1alpha1::{QuotaSight, QuotaVerdict};

use super::{
    Layout,
    slo::lines::{WIDTH, wrapped_at},
};
use crate::{
    human_numbers::{age, counted},
    quota::answers::QuotaAnswers,
};

/// Writes the state of each replica's watches, and the replicas that did not answer.
fn write_sights<T>(
    f: &mut fmt::Formatter<'_>,
    layout: Layout,
    answers: &QuotaAnswers<T>,
    sight: impl Fn(&T) -> Option<&QuotaSight>,
) -> fmt::Result {
    for answer in &answers.0 {
        let text = match &answer.result {
            Err(reason) => format!("replica at {} did not answer: {reason}", answer.addr),
            Ok(result) => sight(result).map_or_else(|| format!("replica at {}", answer.addr), sight_sentence),
        };
        f.write_str(&wrapped_at(page_width(layout), 0, &text))?;
    }
    Ok(())
}

/// Sentences wrap at 80 columns, or earlier on a narrower terminal.
fn page_width(layout: Layout) -> usize {
    layout.text_width().min(WIDTH)
}

fn sight_sentence(sight: &QuotaSight) -> String {
    let QuotaSight {
        replica,
        quotas_known,
        quotas_age_ms,
        pods_known,
        pods_age_ms,
        evaluation,
        quotas,
        quota_claims,
        pods,
        pod_claims,
    } = sight;
    let watch = |is_known: bool, age_ms: &Option<u64>| {
        let last_sign = age_ms.map(|ms| age(Duration::from_millis(ms)));
        match (is_known, last_sign) {
            (true, Some(last_sign)) => format!("synced, last event {last_sign} ago"),
            (true, None) => "synced".to_owned(),
            (false, Some(last_sign)) => format!("stale, last event {last_sign} ago"),
            (false, None) => "not watched".to_owned(),
        }
    };
    let evaluation = match evaluation.as_str() {
        "refuses" => "refuses pods",
        "warns" => "admits pods with a warning",
        "off" => "admits pods, because quotas are not checked",
        // A newer webhook may have other values.
        other => other,
    };
    format!(
        "replica {replica}: {} ({}; {quota_claims} pending), {} ({}; {pod_claims} pending); over quota it {evaluation}",
        counted(*quotas, "quota"),
        watch(*quotas_known, quotas_age_ms),
        counted(*pods, "pod"),
        watch(*pods_known, pods_age_ms),
    )
}

/// Answer to a new pod, as a sentence.
fn verdict_sentence(verdict: &QuotaVerdict) -> String {
    match verdict.result.as_str() {
        "room" => "it fits".to_owned(),
        "refused" => format!("refused: {}", verdict.reasons.join("; ")),
        "unlimited" => "admitted; no quota limits it".to_owned(),
        "off" => "admitted; quotas are not checked".to_owned(),
        "unknown" => {
            "the call would fail: the replica's watch is stale, or quotas are not watched".to_owned()
        }
        // A newer webhook may have other results.
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests;
