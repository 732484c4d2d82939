//! Sources of Fluid's objects. Clusters lack some kinds of runtimes, and those without Fluid lack all of them.

use headroom_domain::names::{FLUID_GROUP, FLUID_NAMESPACE, FLUID_PLUGINS, FLUID_VERSION};
use headroom_rules::fluid::runtime::RuntimeKind;
use kube::Api;

use super::Source;
use crate::store::{
    access::{Access, AccessNamespace},
    fluid::datasets,
    informer::Presence,
};

const OF_FLUID: Presence = Presence::Custom {
    group: FLUID_GROUP,
    version: FLUID_VERSION,
};

pub static CLAIMS: Source = Source {
    name: "persistentvolumeclaims",
    about: "The Dataset that each PersistentVolumeClaim belongs to.",
    access: Access::watch("", "persistentvolumeclaims"),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&CLAIMS, api, &opening.stores.fluid.claims)
    },
    close: Some(|stores| stores.fluid.claims.clear()),
};

pub static DATASETS: Source = Source {
    name: datasets::PLURAL,
    about: "UID, phase and type of the runtime of each Dataset.",
    access: Access::watch(FLUID_GROUP, datasets::PLURAL),
    presence: OF_FLUID,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&DATASETS, api, &opening.stores.fluid.datasets)
    },
    close: Some(|stores| stores.fluid.datasets.clear()),
};

macro_rules! runtimes {
    ($($source:ident, $kind:ident, $store:ident, $about:literal;)*) => {$(
        pub static $source: Source = Source {
            name: RuntimeKind::$kind.plural(),
            about: $about,
            access: Access::watch(FLUID_GROUP, RuntimeKind::$kind.plural()),
            presence: OF_FLUID,
            shares: None,
            open: |opening| {
                let api = Api::all(opening.client.clone());
                opening.follow(&$source, api, &opening.stores.fluid.$store)
            },
            close: Some(|stores| stores.fluid.$store.clear()),
        };
    )*};
}

runtimes! {
    ALLUXIO, Alluxio, alluxio, "Nodes of the clients and of the data of each AlluxioRuntime.";
    JINDO, Jindo, jindo, "Nodes of the clients and of the data of each JindoRuntime.";
    JUICE_FS, JuiceFs, juice_fs, "Nodes of the clients and of the data of each JuiceFSRuntime.";
    THIN, Thin, thin, "Nodes of the clients and of the data of each ThinRuntime.";
    EFC, Efc, efc, "Nodes of the clients and of the data of each EFCRuntime.";
    VINEYARD, Vineyard, vineyard, "Nodes of the data of each VineyardRuntime.";
    CACHE, Cache, cache, "Nodes of the clients and of the data of each CacheRuntime.";
}

pub static PLUGINS: Source = Source {
    name: "fluid-plugins",
    about: "The plugins of Fluid's ConfigMap.",
    access: Access::watch_named("", "configmaps", &[FLUID_PLUGINS])
        .in_namespace(AccessNamespace::Named(FLUID_NAMESPACE)),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let namespace = opening.stores.fluid.plugins.namespace();
        let api = Api::namespaced(opening.client.clone(), namespace.as_str());
        opening.follow(&PLUGINS, api, &opening.stores.fluid.plugins)
    },
    close: Some(|stores| stores.fluid.plugins.clear()),
};
