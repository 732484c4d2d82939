//! [`CaseTable`]: the tables of cases in tests/fixtures/cases, as they stand there.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use headroom_domain::{installation::ConfigMapName, selector::Labels};
use headroom_rules::{
    binding::{Lists, Settings},
    slo,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use super::answer::ExpectedAnswer;
use crate::{
    admission::endpoint::{Colocation, SloConfiguration, Stores},
    store::{
        known::KnownSources,
        lookup::{PodKeys, PodLookup},
        sources,
    },
};

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseTable {
    /// Objects by the names that rows have for them.
    pub(super) bases: BTreeMap<String, Value>,
    pub(super) sections: Vec<CaseSection>,
}

/// Cases that one step answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseSection {
    #[serde(rename = "about")]
    _about: String,
    /// The label of an endpoint.
    pub(super) endpoint: String,
    /// A step of it; none for what happens around the steps.
    pub(super) step: Option<String>,
    #[serde(rename = "cases")]
    _cases: String,
    base: Option<String>,
    resource: Option<String>,
    #[serde(default)]
    pub(super) rows: Vec<CaseRow>,
}

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseRow {
    pub(super) id: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) gates: String,
    #[serde(default)]
    pub(super) switches: String,
    #[serde(default)]
    pub(super) world: CaseWorld,
    base: Option<String>,
    #[serde(default)]
    delta: Value,
    /// What the stored object has on top of the base.
    #[serde(default)]
    old: Value,
    /// Texts of the ConfigMap that is sent, by key.
    data: Option<BTreeMap<String, String>>,
    /// Those of the stored one.
    old_data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) has_no_object: bool,
    #[serde(default = "create")]
    pub(super) operation: String,
    resource: Option<String>,
    #[serde(default = "somebody")]
    pub(super) user: String,
    /// The namespace of the request, where the object has none.
    pub(super) namespace: Option<String>,
    #[serde(default)]
    pub(super) is_dry_run: bool,
    pub(super) expect: Expectation,
}

/// What is known.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CaseWorld {
    /// Pods by NAMESPACE/NAME.
    pods: BTreeMap<String, PodNotes>,
    binding: BindingFlags,
    /// Labels of nodes by their names.
    nodes: BTreeMap<String, Labels>,
    /// Whether entries of Koordinator's ConfigMap need names.
    needs_names: bool,
}

/// What is written on a stored pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PodNotes {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// Who may bind pods, as the flags say it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BindingFlags {
    users: String,
    namespaces: String,
    excluded_namespaces: String,
    bypass_labels: String,
    bypass_annotations: String,
    is_dry_run: bool,
}

/// What the answers are to be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectation {
    /// By default; a case that is not run has none.
    pub(super) ours: Option<ExpectedAnswer>,
    /// With `--compat upstream`, where it is another.
    pub(super) upstream: Option<ExpectedAnswer>,
    /// The switch that makes the difference.
    pub(super) by: Option<String>,
    /// What Koordinator answers and nobody gets here.
    pub(super) not_offered: Option<NotOffered>,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
    /// What the details say, where that is told.
    pub(super) causes: Option<Vec<String>>,
}

/// An answer of Koordinator that is a defect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotOffered {
    pub(super) koordinator: String,
    pub(super) why: String,
}

impl Default for BindingFlags {
    fn default() -> Self {
        let Lists {
            users,
            namespaces,
            excluded_namespaces,
            bypass_labels,
            bypass_annotations,
        } = Lists::default();
        Self {
            users: users.to_owned(),
            namespaces: namespaces.to_owned(),
            excluded_namespaces: excluded_namespaces.to_owned(),
            bypass_labels: bypass_labels.to_owned(),
            bypass_annotations: bypass_annotations.to_owned(),
            is_dry_run: false,
        }
    }
}

fn create() -> String {
    "CREATE".to_owned()
}

fn somebody() -> String {
    "somebody".to_owned()
}

impl CaseTable {
    /// Every table, by the name of its file.
    pub(super) fn all() -> BTreeMap<String, Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/cases");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|file| {
                let name = file.file_name().unwrap().to_str().unwrap().to_owned();
                (name, headroom_kit::config::load(&file).unwrap())
            })
            .collect()
    }
}

impl CaseRow {
    /// The object that is sent, and the stored one.
    pub(super) fn objects(&self, table: &CaseTable, section: &CaseSection) -> (Value, Value) {
        let name = self.base.as_ref().or(section.base.as_ref()).expect("a base");
        let mut stored = table.bases[name].clone();
        let mut sent = stored.clone();
        merge(&mut sent, &self.delta);
        merge(&mut stored, &self.old);
        for (object, data) in [(&mut sent, &self.data), (&mut stored, &self.old_data)] {
            for (key, text) in data.iter().flatten() {
                object["data"][key] = text.clone().into();
            }
        }
        (sent, stored)
    }

    /// As in `pods/binding`.
    pub(super) fn resource<'r>(&'r self, section: &'r CaseSection) -> &'r str {
        self.resource
            .as_ref()
            .or(section.resource.as_ref())
            .expect("a resource")
    }
}

impl CaseWorld {
    /// What steps see of it.
    pub(super) fn stores(self) -> Stores {
        let Self {
            pods,
            binding,
            nodes,
            needs_names,
        } = self;
        let known = KnownSources::default();
        known.record(&sources::NODES, watch::channel(true).1);
        Stores {
            colocation: colocation(pods, &binding),
            slo: SloConfiguration {
                config_map: ConfigMapName::default(),
                settings: slo::Settings { needs_names },
                nodes: Arc::new(LabelledNodes(nodes)),
            },
            known,
            ..Stores::default()
        }
    }
}

fn colocation(pods: BTreeMap<String, PodNotes>, binding: &BindingFlags) -> Colocation {
    let lists = Lists {
        users: &binding.users,
        namespaces: &binding.namespaces,
        excluded_namespaces: &binding.excluded_namespaces,
        bypass_labels: &binding.bypass_labels,
        bypass_annotations: &binding.bypass_annotations,
    };
    let pods = pods.into_iter().map(|(name, PodNotes { labels, annotations })| {
        let keys = PodKeys { labels, annotations };
        (name, Arc::new(keys))
    });
    Colocation {
        pods: Arc::new(StoredPods(pods.collect())),
        binding: Settings::parse(&lists, binding.is_dry_run),
    }
}

/// Labels of nodes by their names.
struct LabelledNodes(BTreeMap<String, Labels>);

impl slo::Nodes for LabelledNodes {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels)) {
        // The last come first: which one is told must not follow from the order.
        let nodes = self.0.iter().rev();
        nodes.for_each(|(name, labels)| visitor(name, labels));
    }
}

/// Pods by NAMESPACE/NAME.
struct StoredPods(BTreeMap<String, Arc<PodKeys>>);

impl PodLookup for StoredPods {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodKeys>> {
        self.0.get(&format!("{namespace}/{name}")).map(Arc::clone)
    }
}

/// Merges objects member by member and arrays place by place; `null` removes a member.
pub(super) fn merge(value: &mut Value, delta: &Value) {
    match (value, delta) {
        (Value::Object(members), Value::Object(delta)) => {
            for (name, delta) in delta {
                if delta.is_null() {
                    members.remove(name);
                } else {
                    merge(members.entry(name).or_insert(Value::Null), delta);
                }
            }
        }
        (Value::Array(elements), Value::Array(delta)) => {
            elements.resize(elements.len().max(delta.len()), Value::Null);
            let places = elements.iter_mut().zip(delta);
            places.for_each(|(element, delta)| merge(element, delta));
        }
        (_, Value::Null) => {}
        (value, delta) => *value = delta.clone(),
    }
}
