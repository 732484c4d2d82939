//! [`OptedInPod`]: the parts of a pod that decide about Fluid's plugins, and its Datasets.

use std::{borrow::Cow, sync::Arc};

use headroom_domain::names::{
    FLUID_ENABLE, FLUID_SERVERFUL, FLUID_SERVERLESS, FLUID_SIDECAR, FLUID_SIDECAR_DONE, FLUID_SKIP_PRECHECK,
};
use headroom_rules::fluid::{
    TermError,
    dataset::{DatasetError, MountedDataset, mounted},
    mounts::{Volume, claims},
    plugins::{Plugin, PluginProfile},
};
use serde::de::DeserializeOwned;

use crate::{
    admission::{
        draft::{Draft, Fields as _, RewriteError},
        endpoint::Stop,
        error::StepError,
        refusal::Denial,
        review::Request,
    },
    store::lookup::FluidLookup,
};

/// Claims of one pod that are looked up: the terms of more Datasets would be refused for their number of values.
const MOST_CLAIMS: usize = 512;

/// A pod that Fluid places, with its Datasets.
pub(super) struct OptedInPod {
    pub(super) volumes: Vec<Volume>,
    /// Sorted by claim.
    pub(super) datasets: Vec<MountedDataset>,
    profile: Arc<PluginProfile>,
}

/// Reasons why the Datasets of a pod are not found.
pub(super) enum PodFault {
    Dataset(DatasetError),
    /// It has this many claims.
    TooManyClaims(usize),
    Read(StepError),
}

impl OptedInPod {
    /// The pod with its Datasets; `None` for a pod that stays as it is.
    pub(super) fn read(
        request: &Request,
        draft: &Draft<'_>,
        store: &dyn FluidLookup,
    ) -> Result<Option<Self>, PodFault> {
        if !is_opted_in(draft) {
            return Ok(None);
        }
        let volumes: Vec<Volume> = part(draft, &["spec", "volumes"]).map_err(PodFault::Read)?;
        let skips_check = text(draft, "annotations", FLUID_SKIP_PRECHECK).is_some_and(|text| text == "true");
        let claims = claims(&volumes);
        if claims.len() > MOST_CLAIMS {
            return Err(PodFault::TooManyClaims(claims.len()));
        }
        let datasets = mounted(store, &request.namespace, &claims, skips_check);
        Ok(Some(Self {
            volumes,
            datasets: datasets.map_err(PodFault::Dataset)?,
            profile: store.plugins(),
        }))
    }

    /// PluginProfile, if a plugin runs for this pod.
    pub(super) fn profile_with(&self, plugin: Plugin) -> Option<&PluginProfile> {
        let plugins = if self.datasets.is_empty() {
            &self.profile.without_dataset
        } else {
            &self.profile.with_dataset
        };
        plugins.have(plugin).then_some(&self.profile)
    }
}

impl From<PodFault> for Stop {
    fn from(fault: PodFault) -> Self {
        match fault {
            PodFault::Dataset(DatasetError::Unknown(plural)) => StepError::Unknown(plural).into(),
            PodFault::Dataset(error) => Denial::Text(error.to_string()).into(),
            PodFault::TooManyClaims(claims) => Denial::Text(format!(
                "spec.volumes: {claims} claims, at most {MOST_CLAIMS} are placed"
            ))
            .into(),
            PodFault::Read(error) => error.into(),
        }
    }
}

impl From<RewriteError> for Stop {
    fn from(error: RewriteError) -> Self {
        match error {
            // Sizes are the user's: a failed call would let the pod pass unplaced where the failure policy is Ignore.
            RewriteError::TooWide { .. } | RewriteError::TooDeep { .. } => {
                Denial::Text(error.to_string()).into()
            }
            RewriteError::Read { .. }
            | RewriteError::NoObject
            | RewriteError::NoElement { .. }
            | RewriteError::Write(_) => StepError::from(error).into(),
        }
    }
}

impl From<TermError> for Stop {
    fn from(error: TermError) -> Self {
        match error {
            TermError::TooMany => Denial::Text(error.to_string()).into(),
            TermError::NoObject(_) | TermError::NoList(_) => StepError::from(error).into(),
        }
    }
}

/// True if Fluid places the pod: it is not switched off, and has no sidecars, which stay with Fluid.
fn is_opted_in(draft: &Draft<'_>) -> bool {
    let has = |key, value: &str| text(draft, "labels", key).is_some_and(|text| text == value);
    let has_sidecars = [FLUID_SERVERLESS, FLUID_SIDECAR, FLUID_SIDECAR_DONE];
    has(FLUID_SERVERFUL, "true")
        && !has(FLUID_ENABLE, "false")
        && !has_sidecars.into_iter().any(|key| has(key, "true"))
}

/// Value of a label or annotation.
pub(super) fn text<'d>(draft: &'d Draft<'_>, member: &str, key: &str) -> Option<Cow<'d, str>> {
    draft.read_text(&["metadata", member, key])
}

/// A part of the pod; the empty one if it is absent.
pub(super) fn part<T: DeserializeOwned + Default>(draft: &Draft<'_>, path: &[&str]) -> Result<T, StepError> {
    let read = draft.read(path).map_err(|source| StepError::Read {
        field: path.join("."),
        source,
    });
    read.map(Option::unwrap_or_default)
}
