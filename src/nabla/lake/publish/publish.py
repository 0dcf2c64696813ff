"""Publishing: a table or view as an external table of the session's catalog, which shows a whole version at any time.

After every commit that changes it, the new version's files are linked into a folder of their own, and the catalog's table is
pointed there. Readers that have begun go on reading the folder before, which is kept until the next version.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

from pyspark.errors import PySparkException

from nabla.engine import types
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.lineage import lineage_of
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.sources import columns_of, stored_columns
from nabla.lake.publish.catalog_table import LAKE, LAKE_VERSION, NAME, PATH, SOURCES, VERSION, CatalogTable
from nabla.lake.publish.publications import Publication, load_publications, save_publications
from nabla.lake.publish.whole_version import remove_others, write_version
from nabla.storage import locations
from nabla.storage.catalog import Entry, LakeState

_LOG = logging.getLogger("nabla")


def publish(context: LakeContext, name: str, table: str, comments: Mapping[str, str] | None) -> Publication:
    """Show a table or view under a name of the catalog, from now on."""
    state = context.log.state()
    entry = context.names(state).entry(name, "table", "view")
    _check_place(context, table)
    unknown = [column for column in comments or {} if column not in columns_of(entry)]
    if unknown:
        raise NablaError(
            "NABLA_UNKNOWN_COLUMN",
            f'there is no column "{unknown[0]}"',
            place=f'comments= of "{entry.name}"',
            remedy=f"It has the columns {', '.join(columns_of(entry))}.",
        )
    shown = CatalogTable(context.spark.session, table)
    publication = Publication(entry.name, shown.sql, dict(comments or {}))
    _check_owner(context, shown, publication)
    _show(context, shown, publication, entry, state)
    others = [one for one in load_publications(context.path) if one.table != publication.table]
    save_publications(context.path, [*others, publication])
    return publication


def unpublish(context: LakeContext, name: str, table: str | None = None) -> tuple[Publication, ...]:
    """Drop the names of a table or view from the catalog: the one given, or all. The object itself stays."""
    known = load_publications(context.path)
    wanted = None if table is None else CatalogTable(context.spark.session, table).sql
    ended = [one for one in known if one.name.casefold() == name.casefold() and wanted in (None, one.table)]
    if not ended:
        there = ", ".join(f"{one.name} as {one.table}" for one in known)
        raise NablaError(
            "NABLA_PUBLISH",
            f'"{name}" is not published' + (f" as {table}" if table else ""),
            place=f"lake {context.path}",
            remedy=f"There are {there}." if there else "Nothing is published.",
        )
    for one in ended:
        _withdraw(context, one)
    save_publications(context.path, [one for one in known if one not in ended])
    if not any(one.name == ended[0].name for one in known if one not in ended):
        remove_others(context.path, ended[0].name, set())
    return tuple(ended)


def bring_publications(context: LakeContext, changed: Collection[str]) -> None:
    """Let the catalog show the newest versions of these objects, where they are published, after a commit of this process."""
    for one in load_publications(context.path):
        if one.name in changed:
            _bring(context, one)


def _bring(context: LakeContext, one: Publication) -> None:
    """A commit stands, whatever the catalog says: what fails here is logged, and tried again after the next one."""
    try:
        state = context.log.state()
        if one.name not in state.entries:
            unpublish(context, one.name, one.table)
            return
        shown = CatalogTable(context.spark.session, one.table)
        if shown.properties() is None:  # another catalog: nothing is made there that nobody asked for
            _LOG.info('"%s" is not published in the catalog of this process as %s', one.name, one.table)
            return
        _check_owner(context, shown, one)
        _show(context, shown, one, state.entries[one.name], state)
    except (NablaError, OSError, PySparkException) as error:
        _LOG.warning('"%s" is not up to date as %s: %s', one.name, one.table, error)


def _check_place(context: LakeContext, table: str) -> None:
    if locations.is_url(context.path):
        raise NablaError(
            "NABLA_PUBLISH",
            "a lake at a URL cannot publish yet: it has no links to files",
            place=f'table "{table}"',
            remedy="Let others read the Delta table by its folder.",
        )


def _check_owner(context: LakeContext, shown: CatalogTable, publication: Publication) -> None:
    """Refuse a name that shows something else."""
    said = shown.properties()
    if said is None or (said.get(LAKE), said.get(NAME)) == (context.log.identity, publication.name):
        return
    if LAKE in said:
        raise NablaError(
            "NABLA_PUBLISHED",
            f'it shows "{said.get(NAME)}" of the lake {said.get(PATH)} already',
            place=f'table "{shown.table}"',
            remedy="Choose another name, or unpublish it there first.",
        )
    raise NablaError(
        "NABLA_EXISTS",
        "there is a table of that name already",
        place=f'table "{shown.table}"',
        remedy="Choose another name, or drop it first.",
    )


def _show(context: LakeContext, shown: CatalogTable, one: Publication, entry: Entry, state: LakeState) -> None:
    """Let the catalog's table show the newest version."""
    snapshot = context.log.snapshot(entry.parts["data"])
    schema = types.from_json(snapshot.schema_json)
    comments = _comments(context, one, entry)
    said = _said(context, entry, state)
    before = shown.location() if shown.properties() is not None else ""
    folder = write_version(context.path, entry.name, snapshot)
    wanted = [(f.name, f.dataType.simpleString(), comments.get(f.name)) for f in schema.fields]
    try:
        if before and shown.schema_and_comments() == wanted:
            shown.move(folder, said)
        else:  # a catalog cannot take columns out of a table
            shown.drop()
            shown.create(schema, comments, folder, said)
    except NablaError:
        locations.remove_folder(folder)
        raise
    others = [CatalogTable(shown.session, p.table) for p in load_publications(context.path) if p.name == one.name]
    in_use = {other.location() for other in others if other.properties() is not None}
    remove_others(context.path, entry.name, {folder, before, *in_use})


def _withdraw(context: LakeContext, one: Publication) -> None:
    shown = CatalogTable(context.spark.session, one.table)
    said = shown.properties()
    if said is not None and said.get(LAKE) == context.log.identity:
        shown.drop()


def _said(context: LakeContext, entry: Entry, state: LakeState) -> dict[str, str]:
    """The properties of the published table."""
    return {
        LAKE: context.log.identity,
        PATH: context.path,
        NAME: entry.name,
        VERSION: str(entry.parts["data"].version),
        LAKE_VERSION: str(state.version),
        SOURCES: json.dumps(entry.facts.get("sources", {})),
    }


def _comments(context: LakeContext, one: Publication, entry: Entry) -> dict[str, str]:
    """The comments of columns, by their stored names: those that the user gave, and for a view what a column is made from."""
    found = dict(one.comments)
    with suppress(NablaError):  # nothing is known of the columns of a view without algebra
        for column, made in lineage_of(context, entry.name, True).columns.items() if is_derived(entry) else ():
            if column not in found and made.direct:
                found[column] = f"from {', '.join(map(str, sorted(made.direct)))}"
    stored = dict(zip(columns_of(entry), stored_columns(entry), strict=True))
    return {stored[name]: text for name, text in found.items() if name in stored}
