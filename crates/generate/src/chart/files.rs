//! [`FILES`]: the generated files of the chart.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use xtask::{images::VERSION, workspace};

use super::{Chart, PUBLISHER, component::Component, header, hook, profile::PROFILES, values};
use crate::File;

/// Oldest API server: it must serve match conditions of webhooks.
const KUBE_VERSION: &str = ">=1.28.0-0";

/// Settings of the publisher.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ChartPublisher {
    home: String,
    repository: String,
    registry: String,
    #[serde(rename = "downloads")]
    _downloads: String,
    security_contact: String,
    maintainers: Vec<Maintainer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Maintainer {
    name: String,
    email: String,
}

pub(in super::super) static FILES: &[File] = &[
    File {
        path: "deploy/chart/headroom/Chart.yaml",
        text: about,
    },
    File {
        path: "deploy/chart/headroom/values.yaml",
        text: default_values,
    },
    File {
        path: "deploy/chart/headroom/values.schema.json",
        text: schema,
    },
    File {
        path: "deploy/chart/headroom/templates/_helpers.tpl",
        text: helpers,
    },
    File {
        path: "deploy/chart/headroom/templates/uninstall.yaml",
        text: || Ok(format!("{}{}", header(), hook::template()?)),
    },
    File {
        path: "deploy/chart/headroom/templates/accounts.yaml",
        text: || Chart::read()?.template("base/accounts.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/agent.yaml",
        text: || Chart::read()?.template("base/agent.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/authorities.yaml",
        text: || Chart::read()?.template("base/authorities.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/certificates.yaml",
        text: || Chart::read()?.template("overlays/cert-manager/certificates.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/checks.yaml",
        text: || Chart::read()?.template("base/checks.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/disruption-budget.yaml",
        text: || Chart::read()?.template("base/disruption-budget.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/fluid-rbac.yaml",
        text: || Chart::read()?.template("components/fluid/rbac.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/fluid-webhooks.yaml",
        text: || Chart::read()?.template("components/fluid/webhooks.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/kubelet-use.yaml",
        text: || Chart::read()?.template("components/kubelet-use/rbac.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/koordinator-kinds.yaml",
        text: || Chart::read()?.template("components/koordinator-kinds/kinds.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/koordinator-rbac.yaml",
        text: || Chart::read()?.template("components/koordinator/rbac.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/koordinator-webhooks.yaml",
        text: || Chart::read()?.template("components/koordinator/webhooks.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/namespaces.yaml",
        text: || Chart::read()?.template("base/namespaces.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/network.yaml",
        text: || Chart::read()?.template("base/network.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/openshift-constraints.yaml",
        text: || Chart::read()?.template("components/openshift/constraints.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/openshift-rbac.yaml",
        text: || Chart::read()?.template("components/openshift/rbac.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/policies.yaml",
        text: || Chart::read()?.template("base/policies.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/priority.yaml",
        text: || Chart::read()?.template("base/priority.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/rbac.yaml",
        text: || Chart::read()?.template("base/rbac.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/services.yaml",
        text: || Chart::read()?.template("base/services.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/webhook.yaml",
        text: || Chart::read()?.template("base/webhook.yaml"),
    },
    File {
        path: "deploy/chart/headroom/templates/webhooks.yaml",
        text: || Chart::read()?.template("base/webhooks.yaml"),
    },
];

/// `Chart.yaml`.
fn about() -> Result<String> {
    let ChartPublisher {
        home,
        repository,
        security_contact,
        maintainers,
        ..
    } = publisher()?;
    let mut text = format!(
        "apiVersion: v2\nname: headroom\ntype: application\nversion: {VERSION}\nappVersion: {VERSION}\nkubeVersion: \"{KUBE_VERSION}\"\n\
         description: Raises the allocatable of nodes whose pods use less than they request.\n\
         home: {home}\nsources:\n  - {repository}\nmaintainers:\n"
    );
    for Maintainer { name, email } in maintainers {
        writeln!(text, "  - name: {name}\n    email: {email}")?;
    }
    writeln!(
        text,
        "annotations:\n  artifacthub.io/license: Apache-2.0\n  headroom.sh/security-contact: {security_contact}"
    )?;
    Ok(text)
}

fn publisher() -> Result<ChartPublisher> {
    let text = super::read(&workspace::root().join(PUBLISHER))?;
    serde_saphyr::from_str(&text).with_context(|| format!("parse {PUBLISHER}"))
}

fn default_values() -> Result<String> {
    let defaults = values::defaults(&publisher()?.registry, &Chart::read()?.manifests)?;
    values::yaml(&defaults)
}

/// The schema without its opening brace: the caller writes the first member.
fn schema() -> Result<String> {
    let text = format!("{:#}\n", values::schema());
    let inside = text.strip_prefix("{\n").context("a schema is an object")?;
    Ok(inside.to_owned())
}

/// `_helpers.tpl`: labels, images, and the active components.
fn helpers() -> Result<String> {
    let mut text = String::from(
        r#"
{{- define "headroom.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: headroom
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- /* A reference in quotes; the arguments are the root and an image of the values. */ -}}
{{- define "headroom.image" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
{{- $values := $root.Values.image }}
{{- $name := $image.repository }}
{{- if $values.registry }}{{ $name = printf "%s/%s" $values.registry $image.repository }}{{ end }}
{{- if $image.digest }}{{ printf "%s@%s" $name $image.digest | quote }}
{{- else }}{{ printf "%s:%s" $name ($values.tag | default $root.Chart.AppVersion) | quote }}{{ end }}
{{- end -}}

{{- /* Names of the active components, as a JSON list. */ -}}
{{- define "headroom.components" -}}
{{- $on := .Values.profiles | default list }}
{{- if .Values.configuration }}{{ $on = append $on "configuration" }}{{ end }}
"#,
    );
    let root = workspace::root().join(super::KUSTOMIZE);
    for profile in &PROFILES {
        for included in profile.included(&Component::read(&root.join(profile.folder))?)? {
            let condition = profile.condition();
            writeln!(
                text,
                "{{{{- if {condition} }}}}{{{{ $on = append $on {included:?} }}}}{{{{ end }}}}"
            )?;
        }
    }
    text.push_str("{{- $on | uniq | toJson }}\n{{- end -}}\n");
    Ok(text)
}
