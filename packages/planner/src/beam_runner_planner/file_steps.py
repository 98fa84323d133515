"""Search for steps that read, match or write files, by the display data of Beam's Python SDK."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath

import attrs
from beam_runner_urns import environments as environment_urns
from beam_runner_urns import transforms as transform_urns

from beam_runner_planner import _protos

_LABELLED = "beam:display_data:labelled:v1"
_PATTERN = "file_pattern"
_SOURCE = "apache_beam.io.iobase.SDFBoundedSourceDoFn"
_MATCHERS = frozenset(
    {"apache_beam.io.fileio._MatchAllFn", "apache_beam.io.filebasedsource._ExpandIntoRanges"}
)
"""Full names of the Beam DoFns whose input elements are file patterns."""
_INNER = re.compile("/(SDFBoundedSourceReader|WriteImpl)(/.*)?$")
"""The part of a step's name at which Beam's expansion of a source or a sink begins."""
_SHARD_FIELD = re.compile(r"%\(\w+\)\d*d")
"""The number in a file name that a sink replaces for each shard."""


@attrs.frozen
class FileStep:
    """A step that reads, matches or writes files.

    Attributes:
        name: the full name of the step.
        pattern: the file pattern; empty if the patterns are elements.
        elsewhere: whether an external SDK environment (for example, LOOPBACK) runs the step's user
            code. Relative paths then depend on the working directory of that environment.
        inputs: the ids of the step's input PCollections.
        outputs: the ids of the step's output PCollections.
        is_write: whether the step writes files.
    """

    name: str
    pattern: str
    elsewhere: bool
    inputs: frozenset[str]
    outputs: frozenset[str]
    is_write: bool = False

    @property
    def is_relative(self) -> bool:
        """Whether the pattern is a path that depends on the working directory of the worker."""
        return (
            bool(self.pattern)
            and "://" not in self.pattern
            and not PurePath(self.pattern).is_absolute()
        )


def find_file_steps(pipeline: bytes) -> tuple[FileStep, ...]:
    """Returns the steps of a serialized pipeline that read, match or write files, in the order of
    their names.

    The function leaves out steps without display data, which SDKs may omit.
    """
    components = _protos.Pipeline.FromString(pipeline).components
    return tuple(sorted(_find_file_steps(components), key=lambda step: step.name))


def _find_file_steps(components: _protos.Components) -> Iterator[FileStep]:
    for node in components.transforms.values():
        if node.spec.urn != transform_urns.PAR_DO:
            continue
        shown = _read_display_data(node)
        source = shown.get((_SOURCE, _PATTERN), "")
        sinks = [text for (_, key), text in shown.items() if key == _PATTERN and text != source]
        if source or sinks or _MATCHERS & set(shown.values()):
            environment = components.environments[node.environment_id]
            yield FileStep(
                _INNER.sub("", node.unique_name),
                source or _SHARD_FIELD.sub("*", "".join(sinks[:1])),
                environment.urn == environment_urns.EXTERNAL,
                frozenset(node.inputs.values()),
                frozenset(node.outputs.values()),
                bool(sinks),
            )


def _read_display_data(node: _protos.PTransform) -> Mapping[tuple[str, str], str]:
    """Returns the texts of a transform's display data by namespace and key, without damaged items."""
    shown = {}
    for item in node.display_data:
        if item.urn == _LABELLED:
            with contextlib.suppress(_protos.DecodeError):
                label = _protos.LabelledPayload.FromString(item.payload)
                shown[label.namespace, label.key] = label.string_value
    return shown
