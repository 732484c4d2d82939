//! Endpoint of Fluid's webhook for pods that read Datasets through the nodes: places them near the data.
//!
//! Pods opt in by a label. Pods with sidecars stay with Fluid. A second call, after another webhook changed the pod,
//! changes nothing that the first one wrote.

mod cache_nodes;
mod datasets;
mod fuse_nodes;
mod mount_propagation;
mod nodes_without_cache;
mod opted_in;
mod usage;

use std::time::Duration;

use headroom_domain::names;
use headroom_kit::gate::Gate;

use crate::{
    admission::{
        endpoint::{
            Awaited, BrokenStep, ConfigurationObject, Ctx, Declaration, Denials, Endpoint, Entry,
            FailurePolicy, Kind, Namespaces, Objects, Pass, Reinvocation, RequestLimits, Rule, SideEffects,
            Step, When, Work,
        },
        refusal::DenialStyle,
        review::Operation,
    },
    store::{
        lookup::FluidLookup,
        sources::{Source, fluid},
    },
};

type FluidStep = Step<dyn FluidLookup>;
type FluidCtx<'a> = Ctx<'a, dyn FluidLookup>;

static GATE: Gate = Gate::beta(
    "FluidPodWebhook",
    "Places pods with data of Fluid, if --serve contains fluid.",
);

/// Sources of the Datasets of a pod, and of the plugins.
static READS: [&Source; 10] = [
    &fluid::CLAIMS,
    &fluid::DATASETS,
    &fluid::ALLUXIO,
    &fluid::JINDO,
    &fluid::JUICE_FS,
    &fluid::THIN,
    &fluid::EFC,
    &fluid::VINEYARD,
    &fluid::CACHE,
    &fluid::PLUGINS,
];

static STEPS: &[&FluidStep] = &[
    &datasets::STEP,
    &fuse_nodes::STEP,
    &cache_nodes::STEP,
    &mount_propagation::STEP,
    &usage::STEP,
    &nodes_without_cache::STEP,
];

pub(super) static ENDPOINT: Endpoint<dyn FluidLookup> = Endpoint {
    declaration: Declaration {
        path: "/mutate-fluid-io-v1alpha1-schedulepod",
        about: "Places new pods with Datasets of Fluid near the data, and those without Datasets elsewhere.",
        kind: Kind::Mutating(Reinvocation::IfNeeded),
        configuration: ConfigurationObject::Fluid,
        gate: Some(&GATE),
        modifiers: &[],
        entries: &[Entry {
            name: names::FLUID_SERVERFUL_ENTRY,
            when: When::Always,
            rules: &[Rule {
                operations: &[Operation::Create],
                group: "",
                version: "v1",
                resource: "pods",
                sub_resource: "",
            }],
            namespaces: Namespaces::ExceptOurs,
            objects: Objects::Labelled {
                key: names::FLUID_SERVERFUL,
                value: "true",
            },
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(10),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::FLUID,
        denials: Denials::First,
        passes: &[Pass::MirrorPods],
        // Terms of many Datasets take milliseconds; heartbeats share the threads of inline work.
        work: Work::Offloaded,
        limits: RequestLimits::DEFAULT,
    },
    // A claim and a pod with it often come in one file.
    awaits: Some(Awaited {
        is_missing: datasets::is_missing,
        longest: Duration::from_millis(250),
    }),
    steps: STEPS,
};
