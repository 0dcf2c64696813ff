"""A view in stages: inner relations with stored state.

An aggregate or distinct anywhere in a view becomes a stage of its own: an inner relation with stored state, maintained
from the change of the plan below it. The plan above reads the stage as one more table that changed. State is needed for
two reasons. It makes the step cheap (a change table needs only the old partial results of the touched groups), and it
makes it exact: a floating point sum recomputed from the old rows need not be bit for bit the one that was stored before.

A stage is maintained by two queries. The first reads the change and finds the touched groups (for a change table, with
the change of their partial results); often it finds none, and the second query is not run. The second reads the stored
state of just these groups, and their rows where the function needs them, and gives the signed change of the state.

State is stored as a log of signed rows: a refresh appends the change of the state, a read sums equal rows.
"""

from nabla.calculus.stages.change_table import ChangeTable
from nabla.calculus.stages.levels import Levels
from nabla.calculus.stages.stage import COPIES, COPY, Stage
from nabla.calculus.stages.staged import Staged, cut
from nabla.calculus.stages.top_rows import PLACE, TopRows, without_ties

__all__ = [
    "COPIES",
    "COPY",
    "PLACE",
    "ChangeTable",
    "Levels",
    "Stage",
    "Staged",
    "TopRows",
    "cut",
    "without_ties",
]
