//! Conversions of an agent's status: [`wire::AgentStatus`] ↔ [`Status`]. Exhaustive patterns make the compiler reject
//! a new field until it is handled here.

mod resource;

use super::WireError;
use crate::{
    status::{
        AckStatus, HistoryStatus, Measured, PodsStatus, ProgramStatus, ResourceStatus, SignalStatus, Status,
        StreamState, StreamStatus,
    },
    v1alpha1 as wire,
};

impl From<Status> for wire::AgentStatus {
    fn from(status: Status) -> Self {
        let Status {
            node,
            node_uid,
            boot_id,
            version,
            mode,
            mode_sentence,
            history,
            timing,
            source,
            programs,
            measured,
            resources,
            pods,
            seq,
            generation,
            streams,
            signals,
        } = status;
        let HistoryStatus {
            age_s,
            beginning,
            why,
        } = history;
        let PodsStatus {
            tracked,
            untracked,
            unreadable,
        } = pods;
        Self {
            node,
            node_uid,
            boot_id,
            version,
            mode,
            mode_sentence,
            timing,
            source,
            programs: programs.into_iter().map(Into::into).collect(),
            resources: resources.into_iter().map(Into::into).collect(),
            pods: Some(wire::AgentPodCounts {
                tracked,
                untracked,
                unreadable,
            }),
            seq,
            generation,
            streams: streams.into_iter().map(Into::into).collect(),
            signals: signals.into_iter().map(Into::into).collect(),
            history: Some(wire::AgentHistory {
                age_s,
                beginning,
                why,
            }),
            measured: measured.map(|measured| figures(&measured)).unwrap_or_default(),
        }
    }
}

impl TryFrom<wire::AgentStatus> for Status {
    type Error = WireError;

    fn try_from(status: wire::AgentStatus) -> Result<Self, WireError> {
        let wire::AgentStatus {
            node,
            node_uid,
            boot_id,
            version,
            mode,
            mode_sentence,
            timing,
            source,
            programs,
            resources,
            pods,
            seq,
            generation,
            streams,
            signals,
            history,
            measured,
        } = status;
        let wire::AgentPodCounts {
            tracked,
            untracked,
            unreadable,
        } = pods.unwrap_or_default();
        Ok(Self {
            node,
            node_uid,
            boot_id,
            version,
            mode,
            mode_sentence,
            history: history.unwrap_or_default().into(),
            timing,
            source,
            programs: programs.into_iter().map(Into::into).collect(),
            measured: read(measured)?,
            resources: resources
                .into_iter()
                .map(ResourceStatus::try_from)
                .collect::<Result<_, _>>()?,
            pods: PodsStatus {
                tracked,
                untracked,
                unreadable,
            },
            seq,
            generation,
            streams: streams
                .into_iter()
                .map(StreamStatus::try_from)
                .collect::<Result<_, _>>()?,
            signals: signals.into_iter().map(Into::into).collect(),
        })
    }
}

/// Measurements of a second by their names in the document; unknown ones are omitted.
fn figures(measured: &Measured) -> Figures {
    let Ok(serde_json::Value::Object(document)) = serde_json::to_value(measured) else {
        return Figures::new();
    };
    let known = document.into_iter();
    known
        .filter_map(|(name, value)| Some((name, value.as_u64()?)))
        .collect()
}

type Figures = std::collections::HashMap<String, u64>;

fn read(figures: Figures) -> Result<Option<Measured>, WireError> {
    if figures.is_empty() {
        return Ok(None);
    }
    let figures = figures.into_iter().map(|(name, value)| (name, value.into()));
    serde_json::from_value(serde_json::Value::Object(figures.collect()))
        .map(Some)
        .map_err(|error| WireError::new("measured", error.to_string()))
}

impl From<ProgramStatus> for wire::AgentProgram {
    fn from(program: ProgramStatus) -> Self {
        let ProgramStatus {
            hook,
            health,
            flavour,
            reason,
            runs,
            run_time_ns,
            verifier_log,
        } = program;
        Self {
            hook,
            health,
            flavour: flavour.unwrap_or_default(),
            reason: reason.unwrap_or_default(),
            runs,
            run_time_ns,
            verifier_log: verifier_log.unwrap_or_default(),
        }
    }
}

impl From<wire::AgentProgram> for ProgramStatus {
    fn from(program: wire::AgentProgram) -> Self {
        let wire::AgentProgram {
            hook,
            health,
            flavour,
            reason,
            runs,
            run_time_ns,
            verifier_log,
        } = program;
        Self {
            hook,
            health,
            flavour: text(flavour),
            reason: text(reason),
            runs,
            run_time_ns,
            verifier_log: text(verifier_log),
        }
    }
}

impl From<StreamStatus> for wire::AgentStream {
    fn from(stream: StreamStatus) -> Self {
        let StreamStatus {
            peer,
            state,
            is_primary,
            last_ack,
            last_problem,
        } = stream;
        let ack = |ack| {
            let AckStatus { seq, verdict, reason } = ack;
            wire::AgentAck { seq, verdict, reason }
        };
        Self {
            peer: peer.to_string(),
            state: state.name().to_owned(),
            primary: is_primary,
            last_ack: last_ack.map(ack),
            last_problem: last_problem.unwrap_or_default(),
        }
    }
}

impl TryFrom<wire::AgentStream> for StreamStatus {
    type Error = WireError;

    fn try_from(stream: wire::AgentStream) -> Result<Self, WireError> {
        let wire::AgentStream {
            peer,
            state,
            primary,
            last_ack,
            last_problem,
        } = stream;
        let ack = |ack| {
            let wire::AgentAck { seq, verdict, reason } = ack;
            AckStatus { seq, verdict, reason }
        };
        Ok(Self {
            peer: peer
                .parse()
                .map_err(|_none| WireError::new("streams.peer", format!("{peer:?} is not an address")))?,
            state: StreamState::from_name(&state)
                .ok_or_else(|| WireError::new("streams.state", format!("{state:?} is not known")))?,
            is_primary: primary,
            last_ack: last_ack.map(ack),
            last_problem: text(last_problem),
        })
    }
}

impl From<SignalStatus> for wire::AgentSignal {
    fn from(signal: SignalStatus) -> Self {
        let SignalStatus {
            name,
            source,
            health,
            unit,
            value,
            missing,
        } = signal;
        Self {
            name,
            source,
            health,
            unit,
            value,
            missing: missing.unwrap_or_default(),
        }
    }
}

impl From<wire::AgentSignal> for SignalStatus {
    fn from(signal: wire::AgentSignal) -> Self {
        let wire::AgentSignal {
            name,
            source,
            health,
            unit,
            value,
            missing,
        } = signal;
        Self {
            name,
            source,
            health,
            unit,
            value,
            missing: text(missing),
        }
    }
}

/// The text; `None` if it is empty.
fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl From<wire::AgentHistory> for HistoryStatus {
    fn from(history: wire::AgentHistory) -> Self {
        let wire::AgentHistory {
            age_s,
            beginning,
            why,
        } = history;
        Self {
            age_s,
            beginning,
            why,
        }
    }
}

#[cfg(test)]
mod tests;
