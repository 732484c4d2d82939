//! [`DraftPod`]: a draft as the rules see a pod that they change.

use headroom_kit::log::chain;
use headroom_rules::{
    change::{ChangeError, Changes},
    container::{Container, ContainerList, Containers},
    explain::Explanation,
    pod_object::{EditFault, FaultKind, ObjectEdit, PodObject},
};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use crate::admission::{
    draft::{Draft, Fields as _, RewriteError},
    error::StepError,
};

/// A draft of a Pod or Reservation.
pub(super) struct DraftPod<'d, 'a>(pub(super) &'d mut Draft<'a>);

/// Why a profile is not applied.
struct ProfileFailure(EditFault);

impl From<RewriteError> for ProfileFailure {
    fn from(error: RewriteError) -> Self {
        Self(fault(&error))
    }
}

/// A pod of the API server cannot be rewritten only if it is too large.
fn fault(error: &RewriteError) -> EditFault {
    EditFault {
        field: error.path().unwrap_or("spec").to_owned(),
        reason: chain(error).to_string(),
        kind: FaultKind::Size,
    }
}

impl DraftPod<'_, '_> {
    fn container_list(&self, list: ContainerList) -> Result<Vec<Container>, StepError> {
        let path = ["spec", list.name()];
        let Some(objects) = self.0.objects(&path) else {
            return Ok(self.read(&path)?.unwrap_or_default());
        };
        let unreadable = |source| StepError::Read {
            field: path.join("."),
            source,
        };
        let length = list.check_length(objects.len());
        length.map_err(|error| unreadable(serde_json::Error::custom(error)))?;
        let containers = objects.into_iter().map(|object| {
            Ok(Container {
                name: object.read("name")?.unwrap_or_default(),
                resources: object.read("resources")?.unwrap_or_default(),
                restart_policy: match list {
                    ContainerList::Init => object.read("restartPolicy")?,
                    ContainerList::Main => None,
                },
            })
        });
        containers.collect::<Result<_, _>>().map_err(unreadable)
    }
}

impl PodObject for DraftPod<'_, '_> {
    type Error = StepError;

    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, StepError> {
        self.0.read(path).map_err(|source| StepError::Read {
            field: if path.is_empty() {
                "the pod".to_owned()
            } else {
                path.join(".")
            },
            source,
        })
    }

    fn rewrite(
        &mut self,
        path: &[&str],
        change: impl FnOnce(&mut Value) -> Result<(), ChangeError>,
    ) -> Result<(), StepError> {
        self.0
            .rewrite(path, |value| change(value).map_err(StepError::from))
    }

    /// In a list of the request only the needed parts are parsed.
    fn containers(&self) -> Result<Containers, StepError> {
        let read = |list| self.container_list(list);
        let (containers, init_containers) = (read(ContainerList::Main)?, read(ContainerList::Init)?);
        Containers::new(containers, init_containers).map_err(|error| StepError::Read {
            field: "spec".to_owned(),
            source: serde_json::Error::custom(error),
        })
    }

    fn change_containers(&mut self, changes: &Changes) -> Result<(), StepError> {
        for list in changes.lists() {
            let path = ["spec", list.name()];
            if self.0.objects(&path).is_none() {
                self.rewrite(&path, |value| changes.apply(list, value))?;
                continue;
            }
            for change in changes.iter().filter(|change| change.list == list) {
                self.0
                    .rewrite_element((&path, change.index), "resources", |resources| {
                        change.apply_to_resources(resources).map_err(StepError::from)
                    })?;
            }
        }
        Ok(())
    }

    fn apply_each<E: ObjectEdit>(&mut self, edits: &[E]) -> Vec<Result<(), EditFault>> {
        let changes = edits
            .iter()
            .map(|edit| move |object: &mut Value| edit.apply(object).map_err(ProfileFailure));
        let note = |explanation: &mut Explanation, index: usize, before: &Value, after: &Value| {
            if let Some(edit) = edits.get(index) {
                edit.note(explanation, before, after);
            }
        };
        let places = edits.iter().flat_map(ObjectEdit::places);
        match self.0.rewrite_each(places.map(Vec::as_slice), changes, note) {
            Ok(results) => {
                let results = results.into_iter();
                results
                    .map(|result| result.map_err(|ProfileFailure(reason)| reason))
                    .collect()
            }
            Err(error) => edits.iter().map(|_| Err(fault(&error))).collect(),
        }
    }

    fn set(&mut self, path: &[&str], text: String) -> Result<(), StepError> {
        let (before, text) = (self.0.changes(), Value::from(text));
        self.0.set(path, text.clone())?;
        if self.0.changes() > before {
            self.0
                .explain(|explanation| explanation.note_change(path, &Value::Null, &text));
        }
        Ok(())
    }

    fn remove(&mut self, path: &[&str]) {
        let before = self.0.changes();
        self.0.remove(path);
        if self.0.changes() > before {
            let was_there = Value::Bool(true);
            self.0
                .explain(|explanation| explanation.note_change(path, &was_there, &Value::Null));
        }
    }

    fn warn(&mut self, text: String) {
        self.0.warn(text);
    }

    fn explain(&mut self, note: impl FnOnce(&mut Explanation)) {
        self.0.explain(note);
    }
}
