//! Shapes of reviews of pods with data of Fluid.

use super::Row;

pub(super) const FLUID_ROWS: &[Row] = &[
    (
        "volumes of many claims",
        &[
            r#"HEAD"namespace":"ns","object":{"metadata":{"labels":{"fuse.serverful.fluid.io/inject":"true"}},"spec":{"volumes":["#,
            r#"{"name":"%","persistentVolumeClaim":{"claimName":"%"}},"#,
            "{}]}}}}",
        ],
    ),
    (
        "volumes of one claim",
        &[
            r#"HEAD"namespace":"ns","object":{"metadata":{"labels":{"fuse.serverful.fluid.io/inject":"true"}},"spec":{"volumes":["#,
            r#"{"persistentVolumeClaim":{"claimName":"a"}},"#,
            "{}]}}}}",
        ],
    ),
    (
        "required node terms of a pod with a claim",
        &[
            r#"HEAD"namespace":"ns","object":{"metadata":{"labels":{"fuse.serverful.fluid.io/inject":"true"}},"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"a"}}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":["#,
            r#"{"matchExpressions":[{"key":"%","operator":"Exists"}]},"#,
            "{}]}}}}}}}",
        ],
    ),
    (
        "preferred node terms of a pod without a claim",
        &[
            r#"HEAD"namespace":"ns","object":{"metadata":{"labels":{"fuse.serverful.fluid.io/inject":"true"}},"spec":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":["#,
            r#"{"weight":1,"preference":{"matchExpressions":[{"key":"%","operator":"Exists"}]}},"#,
            "{}]}}}}}}",
        ],
    ),
    (
        "mounts of a Dataset",
        &[
            r#"HEAD"namespace":"ns","object":{"metadata":{"labels":{"fuse.serverful.fluid.io/inject":"true"}},"spec":{"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"a"}}],"containers":[{"name":"c","volumeMounts":["#,
            r#"{"name":"a"},"#,
            "{}]}]}}}}",
        ],
    ),
    (
        "labels that require claims",
        &[
            r#"HEAD"namespace":"ns","object":{"metadata":{"labels":{"fuse.serverful.fluid.io/inject":"true","#,
            r#""fluid.io/dataset.%.sched":"required","#,
            r#""x":""}},"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"a"}}]}}}}"#,
        ],
    ),
    (
        "names of Datasets in use",
        &[
            r#"HEAD"namespace":"ns","object":{"metadata":{"labels":{"fuse.serverful.fluid.io/inject":"true"},"annotations":{"fluid.io/datasets-in-use":""#,
            "%,",
            r#""}},"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"a"}}]}}}}"#,
        ],
    ),
];
