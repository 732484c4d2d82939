//! A pool of control planes that the tests of one test program reuse: starting one needs as much CPU time as most
//! tests.
//!
//! A test has its control plane for itself. When it ends, its nodes end too; before the next test starts, all objects
//! of tests are deleted. A control plane that cannot be reset is discarded: one that does not answer, or one whose
//! API server has policies or aggregated API servers, which it forgets only after some time.

use std::{
    fmt::Debug,
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, Result, ensure};
use headroom_testbed::{Testbed, accounts, cluster::Cluster};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        admissionregistration::v1::{
            MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration,
        },
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde::de::DeserializeOwned;

use crate::built::programs;

/// Label of objects that the API server creates.
const ITS_OWN: &str = "kubernetes.io/bootstrapping";
/// Namespaces with objects of the API server; tests create none there.
const SYSTEM: [&str; 2] = ["kube-system", "kube-public"];
/// Selects API services that the API server does not register itself.
const AGGREGATED: &str = "!kube-aggregator.kubernetes.io/automanaged";

static IDLE: Mutex<Vec<Testbed>> = Mutex::new(Vec::new());

/// A control plane without objects of tests: only etcd and an API server.
pub(crate) async fn get() -> Testbed {
    loop {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut testbed) = idle else {
            let builder = Testbed::builder(programs().await);
            return builder.start().await.expect("start the testbed");
        };
        if Box::pin(reset(&mut testbed)).await.is_ok() {
            return testbed;
        }
    }
}

/// Returns a control plane of [`get`] to the pool.
pub(crate) fn put(mut testbed: Testbed) {
    testbed.cluster.stop_nodes();
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(testbed);
}

/// Resets a control plane to its initial state.
async fn reset(testbed: &mut Testbed) -> Result<()> {
    testbed.cluster.check()?;
    // A client belongs to the async runtime that created it.
    testbed.client = testbed.cluster.client().await?;
    let client = &testbed.client;
    is_alone::<MutatingAdmissionPolicyBinding>(client, "").await?;
    is_alone::<ValidatingAdmissionPolicyBinding>(client, "").await?;
    is_alone::<APIService>(client, AGGREGATED).await?;
    // Webhooks are deleted first, so that they are not called for the other deletions.
    clear(&Api::<MutatingWebhookConfiguration>::all(client.clone()), "").await?;
    clear(&Api::<ValidatingWebhookConfiguration>::all(client.clone()), "").await?;
    let namespaces = Api::<Namespace>::all(client.clone())
        .list(&ListParams::default())
        .await?;
    let names = namespaces.items.iter().map(ResourceExt::name_any);
    for name in names.filter(|name| !SYSTEM.contains(&name.as_str())) {
        clear_in::<Pod>(client, &name).await?;
        clear_in::<ConfigMap>(client, &name).await?;
        clear_in::<Lease>(client, &name).await?;
        clear_in::<Secret>(client, &name).await?;
        clear_in::<ServiceAccount>(client, &name).await?;
        clear_in::<Event>(client, &name).await?;
        if name != "default" {
            clear_in::<Service>(client, &name).await?;
        }
        clear_in::<RoleBinding>(client, &name).await?;
        clear_in::<Role>(client, &name).await?;
    }
    let not_its_own = format!("!{ITS_OWN}");
    clear(&Api::<Node>::all(client.clone()), "").await?;
    clear(&Api::<ClusterRoleBinding>::all(client.clone()), &not_its_own).await?;
    clear(&Api::<ClusterRole>::all(client.clone()), &not_its_own).await?;
    remove_files(&testbed.cluster)?;
    accounts::create(client).await
}

/// Fails if there are objects that the API server did not create.
async fn is_alone<K>(client: &Client, labels: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let listed = Api::<K>::all(client.clone())
        .list(&ListParams::default().labels(labels))
        .await?;
    ensure!(listed.items.is_empty(), "{} are left", K::plural(&()));
    Ok(())
}

async fn clear_in<K>(client: &Client, namespace: &str) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let labels = if K::kind(&()).starts_with("Role") {
        format!("!{ITS_OWN}")
    } else {
        String::new()
    };
    clear(&Api::<K>::namespaced(client.clone(), namespace), &labels).await
}

/// Deletes objects without a grace period, and fails if one stays.
async fn clear<K>(api: &Api<K>, labels: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let those = ListParams::default().labels(labels);
    if api.list_metadata(&those).await?.items.is_empty() {
        return Ok(());
    }
    let at_once = DeleteParams::default().grace_period(0);
    api.delete_collection(&at_once, &those).await?;
    let left = api.list_metadata(&those).await?.items;
    ensure!(left.is_empty(), "{} stay", K::plural(&()));
    Ok(())
}

/// Removes files that programs of the last test wrote to the control plane's folder.
fn remove_files(cluster: &Cluster) -> Result<()> {
    let own = cluster.files();
    for entry in fs::read_dir(cluster.dir()).context("read the folder of the cluster")? {
        let entry = entry?;
        if !own.contains(&entry.file_name()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    removed.with_context(|| format!("remove {}", path.display()))
}
