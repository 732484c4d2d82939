//! [`Stores`]: every store that steps may read, each under the type by which an endpoint declares it.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_domain::{
    capacity::PodDemand,
    hint::{EffectiveHint, HintQuery},
    installation::ConfigMapName,
    names,
    policy::Policy,
    resource::PerResource,
    selector::LabelSelector,
};
use headroom_rules::{
    binding,
    enhanced::LabelRules,
    fluid::{
        dataset::{Catalog, Claim, Dataset, UnknownObjects},
        plugins::PluginProfile,
        runtime::{Runtime, RuntimeKind},
    },
    mixed_resources::DefaultResources,
    pod_quota::Usage,
    profile::PriorityClass,
    quota::{BoundPods, Quota, QuotaKey, QuotaTree},
    slo,
    slo::strategies::Strategies,
};

use crate::store::{
    by_name::Listing,
    colocation::profiles::KnownProfile,
    known::KnownSources,
    lookup::{
        Decide, FluidLookup, LabelRuleLookup, LimitRangeLookup, NodeLookup, PodKeys, PodLookup,
        ProfileLookup, QuotaLookup, QuotaUsageLookup, TreeNodesLookup,
    },
    node::{Labels, Node},
    pending_admissions::PendingAdmission,
    pending_limit::PendingLimit,
    pod_decisions::PodDecisions,
    quota_request::{PodName, QuotaRequest},
};

/// The stores of a replica, as steps see them.
#[derive(Clone)]
pub struct Stores {
    /// Nodes, their pods, hints and policies.
    pub nodes: Arc<dyn NodeLookup>,
    /// Pods by name, and how they are judged.
    pub colocation: Colocation,
    /// Koordinator's ConfigMap, and the nodes that its entries may select.
    pub slo: SloConfiguration,
    /// The quotas, and the pods that belong to them.
    pub quotas: Arc<dyn QuotaLookup>,
    /// Objects of Fluid.
    pub fluid: Arc<dyn FluidLookup>,
    pub known: KnownSources,
    /// Last reviews of pods, for debug queries; no step reads them.
    pub decisions: Arc<PodDecisions>,
}

/// Stores that the steps of pods read.
#[derive(Clone)]
pub struct Colocation {
    /// The pods that are stored.
    pub pods: Arc<dyn PodLookup>,
    pub profiles: Arc<dyn ProfileLookup>,
    /// The labels that pods must have.
    pub label_rules: Arc<dyn LabelRuleLookup>,
    pub limit_ranges: Arc<dyn LimitRangeLookup>,
    /// The quotas that pods belong to.
    pub quotas: PodQuotas,
    pub binding: binding::Settings,
}

/// Stores of quotas that the steps of pods read.
#[derive(Clone)]
pub struct PodQuotas {
    pub tree: Arc<dyn QuotaLookup>,
    /// The nodes of their trees.
    pub nodes: Arc<dyn TreeNodesLookup>,
    /// Use of quotas by their pods.
    pub pod_usage: Arc<dyn QuotaUsageLookup>,
    pub known: KnownSources,
}

/// Stores that the steps of Koordinator's ConfigMap read.
#[derive(Clone)]
pub struct SloConfiguration {
    pub config_map: ConfigMapName,
    /// Requirements for its versions.
    pub settings: slo::Settings,
    /// The nodes that its entries may select.
    pub nodes: Arc<dyn slo::Nodes + Send + Sync>,
}

impl Stores {
    /// These nodes and nothing else.
    pub fn of_nodes(nodes: Arc<dyn NodeLookup>) -> Self {
        Self {
            nodes,
            ..Self::default()
        }
    }
}

/// Has the store of type `S`.
pub trait Provides<S: ?Sized> {
    fn provide(&self) -> &S;
}

/// Empty store, for tests of endpoints that need none.
#[derive(Debug, Clone, Copy)]
pub struct NoStore;

impl Default for Stores {
    /// Stores in which nothing is known. Quotas of pods share the known sources of the reviews.
    fn default() -> Self {
        let known = KnownSources::default();
        Self {
            nodes: Arc::new(NoStore),
            colocation: Colocation {
                pods: Arc::new(NoStore),
                profiles: Arc::new(NoStore),
                label_rules: Arc::new(NoStore),
                limit_ranges: Arc::new(NoStore),
                quotas: PodQuotas {
                    tree: Arc::new(NoStore),
                    nodes: Arc::new(NoStore),
                    pod_usage: Arc::new(NoStore),
                    known: known.clone(),
                },
                binding: binding::Settings::default(),
            },
            slo: SloConfiguration {
                config_map: ConfigMapName::default(),
                settings: slo::Settings::default(),
                nodes: Arc::new(NoStore),
            },
            quotas: Arc::new(NoStore),
            fluid: Arc::new(NoStore),
            known,
            decisions: Arc::default(),
        }
    }
}

impl Provides<dyn NodeLookup> for Stores {
    fn provide(&self) -> &(dyn NodeLookup + 'static) {
        self.nodes.as_ref()
    }
}

impl Provides<Colocation> for Stores {
    fn provide(&self) -> &Colocation {
        &self.colocation
    }
}

impl Provides<SloConfiguration> for Stores {
    fn provide(&self) -> &SloConfiguration {
        &self.slo
    }
}

impl Provides<dyn QuotaLookup> for Stores {
    fn provide(&self) -> &(dyn QuotaLookup + 'static) {
        self.quotas.as_ref()
    }
}

impl Provides<dyn FluidLookup> for Stores {
    fn provide(&self) -> &(dyn FluidLookup + 'static) {
        self.fluid.as_ref()
    }
}

impl Catalog for NoStore {
    fn claim(&self, _namespace: &str, _name: &str) -> Result<Option<Arc<Claim>>, UnknownObjects> {
        Ok(None)
    }

    fn dataset(&self, _namespace: &str, _name: &str) -> Result<Option<Arc<Dataset>>, UnknownObjects> {
        Ok(None)
    }

    fn runtime(
        &self,
        _kind: RuntimeKind,
        _namespace: &str,
        _name: &str,
    ) -> Result<Option<Arc<Runtime>>, UnknownObjects> {
        Ok(None)
    }
}

impl FluidLookup for NoStore {
    fn plugins(&self) -> Arc<PluginProfile> {
        Arc::default()
    }
}

impl QuotaTree for NoStore {
    fn by_name(&self, _name: &str) -> Option<Arc<Quota>> {
        None
    }

    fn count_named(&self, _name: &str) -> usize {
        0
    }

    fn get(&self, _namespace: &str, _name: &str) -> Option<Arc<Quota>> {
        None
    }

    fn visit_children(&self, _parent: &str, _visit: &mut dyn FnMut(&Quota)) {}

    fn owner(&self, _namespace: &str) -> Option<Arc<Quota>> {
        None
    }

    fn is_leaving(&self, _quota: &Quota) -> bool {
        false
    }

    fn bound_pods(&self, _quota: &Quota) -> BoundPods {
        BoundPods::default()
    }
}

impl QuotaLookup for NoStore {
    fn visit_tree(&self, visit: &mut dyn FnMut(&dyn QuotaTree)) {
        visit(self);
    }

    fn decide(&self, decide: &mut Decide<'_>) -> Option<Box<dyn PendingAdmission>> {
        decide(self);
        None
    }

    fn noted_use(&self, _key: &QuotaKey) -> Box<str> {
        Box::default()
    }
}

impl TreeNodesLookup for NoStore {
    fn nodes(&self, _tree: &str, _namespace: Option<&str>) -> Option<Arc<LabelSelector>> {
        None
    }
}

impl QuotaUsageLookup for NoStore {
    fn usage(&self, _request: &QuotaRequest, _now: Instant) -> Option<Vec<Usage>> {
        None
    }

    fn is_ahead(&self, _pod: &PodName, _controller: &str, _now: Instant) -> bool {
        false
    }

    fn admit(
        &self,
        _request: QuotaRequest,
        _now: Instant,
        _fits: &mut dyn FnMut(&[Usage]) -> bool,
    ) -> Result<Option<Box<dyn PendingAdmission>>, PendingLimit> {
        Ok(None)
    }
}

impl slo::Nodes for NoStore {
    fn visit(&self, _visitor: &mut dyn FnMut(&str, &Labels)) {}
}

impl PodLookup for NoStore {
    fn pod(&self, _namespace: &str, _name: &str) -> Option<Arc<PodKeys>> {
        None
    }
}

impl LabelRuleLookup for NoStore {
    fn label_rules(&self) -> Arc<LabelRules> {
        Arc::default()
    }
}

impl LimitRangeLookup for NoStore {
    fn limit_ranges(&self, _namespace: &str) -> Vec<(String, DefaultResources)> {
        Vec::new()
    }
}

impl ProfileLookup for NoStore {
    fn profiles(&self) -> Arc<Listing<KnownProfile>> {
        Arc::default()
    }

    fn namespace(&self, _name: &str) -> Option<Arc<Labels>> {
        None
    }

    fn priority_class(&self, _name: &str) -> Option<Arc<PriorityClass>> {
        None
    }
}

impl NodeLookup for NoStore {
    fn policy<'l>(&self, _labels: &dyn Fn() -> Cow<'l, Labels>) -> Option<Policy> {
        None
    }

    fn hint(&self, _asked: &HintQuery<'_>) -> Option<EffectiveHint> {
        None
    }

    fn stored(&self, _node: &str) -> Option<Arc<Node>> {
        None
    }

    fn is_contested(&self, _node: &str) -> Option<bool> {
        None
    }

    fn pod_demand(
        &self,
        _node: &str,
        _stored: PerResource<Option<u64>>,
        _is_told: bool,
    ) -> Option<PerResource<PodDemand>> {
        None
    }

    fn strategies(&self) -> Arc<Strategies> {
        Arc::default()
    }

    fn heartbeat_interval(&self) -> Duration {
        Duration::ZERO
    }

    fn denies_above_hint(&self) -> bool {
        false
    }

    fn webhook_user(&self) -> &'static str {
        names::WEBHOOK_USER
    }
}
