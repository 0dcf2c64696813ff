import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.*;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.*;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Reads a whole Catalyst plan in one call: Python gets it as JSON instead of asking for every node through py4j, which costs
 * seconds a query. Compiled at run time by Janino, the compiler that Spark itself uses for generated code; so this is Java
 * without lambdas and with erased generics. It knows no operator and no function: what they mean is said in Python.
 */
public class CatalystReader {
    /** Begins the name of a stand-in; the class of the function and its SQL with a hole for each argument follow. */
    private static final String STANDIN = "nabla:";

    private final SqlTemplates templates;
    private final Set printedByPython;
    private final Set known;

    /** `known` are the classes that an expression may consist of that takes the place of a function. */
    public CatalystReader(SparkSession session, Collection printedByPython, Collection known) {
        this.templates = new SqlTemplates(session);
        this.printedByPython = new HashSet(printedByPython);
        this.known = new HashSet(known);
    }

    // ---------------------------------------------------------------- what a plan reads

    /** A set of names, which the text has with a NUL character between two. */
    public Set names(String joined) {
        return new HashSet(Arrays.asList((Object[]) joined.split("\0")));
    }

    /** The tables that a plan reads, and what it reads that is no table: [table or null, name or null, text, line]. */
    public String sources(LogicalPlan plan, Set tables) throws Exception {
        return json(PlanSources.of(plan, tables));
    }

    /** The columns of a plan's result. */
    public String columns(LogicalPlan plan) throws Exception {
        return json(values(plan.output()));
    }

    /** The Python UDFs of a plan. */
    public List pythonFunctions(LogicalPlan plan) {
        final List found = new ArrayList();
        plan.transformAllExpressionsWithSubqueries(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object e) {
                return false;
            }
            public Object applyOrElse(Object e, Function1 otherwise) {
                if (e instanceof PythonUDF) found.add(e);
                return otherwise.apply(e);
            }
        });
        return found;
    }

    // ---------------------------------------------------------------- rewriting

    /**
     * A function like nvl keeps its arguments beside the expression that replaces it, and rules rewrite the replacement only:
     * after them the arguments name columns that are gone. A stand-in has the arguments as its children. It is a Python UDF
     * because rules move these about but never try to evaluate them. Where the replacement consists of known functions alone, as
     * that of nvl, EXTRACT or BETWEEN does, it takes the function's place: two spellings are one thing. An aggregate like count_if that is a count in the end
     * becomes one at once: the rules that turn subqueries into joins know of a count alone that it is 0 where there are no rows.
     */
    public LogicalPlan standIns(LogicalPlan plan) {
        return (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object e) {
                return e instanceof InheritAnalysisRules || isCount(e);
            }
            public Object applyOrElse(Object e, Function1 otherwise) {
                if (!isDefinedAt(e)) return otherwise.apply(e);
                return isCount(e) ? ((RuntimeReplaceable) e).replacement() : standIn((Expression) e);
            }
        });
    }

    private boolean isCount(Object e) {
        return e instanceof RuntimeReplaceableAggregate && ((RuntimeReplaceable) e).replacement() instanceof Count;
    }

    private Expression standIn(Expression e) {
        InheritAnalysisRules function = (InheritAnalysisRules) e;
        Seq arguments = arguments(function);
        Expression replacement = inlined(function.child());
        if (isKnown(function, replacement, arguments)) return replacement;
        String sql = templates.of(function, arguments);
        if (sql == null) return inlined(function.child());
        ExprId id = NamedExpression$.MODULE$.newExprId();
        return new PythonUDF(STANDIN + simpleName(e) + ":" + sql, null, e.dataType(), arguments, 100, e.deterministic(), id);
    }

    private boolean isKnown(Object function, Expression replacement, Seq arguments) {
        String name = simpleName(function);
        if (function instanceof RuntimeReplaceableAggregate || name.startsWith("Try") || known.contains(name)) return false;
        return isKnown(replacement, arguments);
    }

    /** Whether everything but the arguments is of a known class. */
    private boolean isKnown(Expression e, Seq arguments) {
        for (int i = 0; i < arguments.size(); i++) {
            if (((Expression) arguments.apply(i)).canonicalized().equals(e.canonicalized())) return true;
        }
        if (!known.contains(simpleName(e))) return false;
        for (Iterator i = e.children().iterator(); i.hasNext();) {
            if (!isKnown((Expression) i.next(), arguments)) return false;
        }
        return true;
    }

    /** What BETWEEN and its kin compute once and name has no name in SQL: it is written wherever it is used. */
    private static Expression inlined(Expression e) {
        return (Expression) e.transformDown(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object part) {
                return part instanceof With && ((With) part).deterministic();
            }
            public Object applyOrElse(Object part, Function1 otherwise) {
                if (!isDefinedAt(part)) return otherwise.apply(part);
                Map meanings = new HashMap();
                for (Iterator i = ((With) part).defs().iterator(); i.hasNext();) {
                    CommonExpressionDef named = (CommonExpressionDef) i.next();
                    meanings.put(named.id(), named.child());
                }
                return spelledOut((Expression) ((With) part).child().transformDown(new Meaning(meanings)));
            }
        });
    }

    /** NULLIF of Spark 4.3 is an IF under a name that SQL does not have. */
    private static Expression spelledOut(Expression e) {
        return simpleName(e).equals("NullIfResult") ? ((RuntimeReplaceable) e).replacement() : e;
    }

    public static class Meaning extends AbstractPartialFunction {
        private final Map meanings;
        public Meaning(Map meanings) {
            this.meanings = meanings;
        }
        public boolean isDefinedAt(Object e) {
            return e instanceof CommonExpressionRef && meanings.containsKey(((CommonExpressionRef) e).id());
        }
        public Object applyOrElse(Object e, Function1 otherwise) {
            return isDefinedAt(e) ? meanings.get(((CommonExpressionRef) e).id()) : otherwise.apply(e);
        }
    }

    /** The arguments, with the columns that the analyzer renamed in the replacement alone (a self-join of a DataFrame). */
    private Seq arguments(InheritAnalysisRules e) {
        Map current = new HashMap();
        Set ids = new HashSet();
        for (Iterator i = ((Expression) e).references().iterator(); i.hasNext();) {
            Attribute a = (Attribute) i.next();
            // Two columns of one name: which one an argument means cannot be told.
            current.put(a.name(), current.containsKey(a.name()) ? null : a);
            ids.add(a.exprId());
        }
        List arguments = new ArrayList();
        for (Iterator i = e.parameters().iterator(); i.hasNext();) {
            arguments.add(((Expression) i.next()).transform(new Renaming(current, ids)));
        }
        return seq(arguments);
    }

    public static class Renaming extends AbstractPartialFunction {
        private final Map byName;
        private final Set known;
        public Renaming(Map byName, Set known) {
            this.byName = byName;
            this.known = known;
        }
        public boolean isDefinedAt(Object e) {
            return e instanceof AttributeReference && !known.contains(((Attribute) e).exprId())
                && byName.get(((Attribute) e).name()) != null;
        }
        public Object applyOrElse(Object e, Function1 otherwise) {
            return isDefinedAt(e) ? byName.get(((Attribute) e).name()) : otherwise.apply(e);
        }
    }

    /** Views other than these are what they are defined as. */
    public LogicalPlan inlineViews(LogicalPlan plan, final Set kept) {
        return (LogicalPlan) plan.transformUpWithSubqueries(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object p) {
                return p instanceof View && !kept.contains(PlanSources.viewName((View) p));
            }
            public Object applyOrElse(Object p, Function1 otherwise) {
                return isDefinedAt(p) ? ((View) p).child() : otherwise.apply(p);
            }
        });
    }

    /** The rules in turn, then the same for the subqueries that are left, then `after`, and `shape` until nothing changes. */
    public LogicalPlan normalize(LogicalPlan plan, final List before, final List after, final List shape) {
        plan = apply(plan, before);
        plan = (LogicalPlan) plan.transformAllExpressions(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object e) {
                return e instanceof SubqueryExpression;
            }
            public Object applyOrElse(Object e, Function1 otherwise) {
                if (!isDefinedAt(e)) return otherwise.apply(e);
                LogicalPlan inner = (LogicalPlan) ((SubqueryExpression) e).plan();
                return ((SubqueryExpression) e).withNewPlan(normalize(inner, before, after, shape));
            }
        });
        plan = apply(plan, after);
        for (int round = 0; round < 20; round++) {
            LogicalPlan next = apply(plan, shape);
            if (next.fastEquals(plan)) return next;
            plan = next;
        }
        return plan;
    }

    private LogicalPlan apply(LogicalPlan plan, List rules) {
        for (int i = 0; i < rules.size(); i++) plan = (LogicalPlan) ((Rule) rules.get(i)).apply(plan);
        return plan;
    }

    // ---------------------------------------------------------------- reading

    public String read(LogicalPlan plan) throws Exception {
        return json(operator(plan));
    }

    private Map operator(LogicalPlan plan) {
        Map node = new LinkedHashMap();
        node.put("operator", simpleName(plan));
        Origin origin = plan.origin();
        if (origin.line().isDefined()) {
            node.put("line", origin.line().get());
            node.put("position", origin.startPosition().isDefined() ? origin.startPosition().get() : null);
        }
        node.put("output", values(plan.output()));
        // A table is a table; what it is made of does not matter.
        boolean leaf = plan instanceof View || plan.children().isEmpty();
        node.put("children", leaf ? new ArrayList() : values(plan.children()));
        node.put("fields", plan instanceof LocalRelation ? rows((LocalRelation) plan) : fields(plan, plan.children()));
        if (plan.maxRows().isDefined()) node.put("max_rows", plan.maxRows().get());
        return node;
    }

    private Map rows(LocalRelation relation) {
        List rows = new ArrayList();
        for (Iterator i = relation.data().iterator(); i.hasNext();) {
            InternalRow row = (InternalRow) i.next();
            List values = new ArrayList();
            for (int c = 0; c < relation.output().size(); c++) {
                DataType type = ((Attribute) relation.output().apply(c)).dataType();
                values.add(expression(Literal$.MODULE$.create(row.get(c, type), type)));
            }
            rows.add(values);
        }
        return Collections.singletonMap("rows", rows);
    }

    private Map expression(Expression e) {
        Map node = new LinkedHashMap();
        node.put("expression", simpleName(e));
        try {
            node.put("type", SqlTemplates.typeName(e.dataType()));
            node.put("nullable", Boolean.valueOf(e.nullable()));
        } catch (Throwable none) {
            // The frame of a window has no type.
        }
        if (!e.deterministic()) node.put("deterministic", Boolean.FALSE);
        if (e instanceof NamedExpression && e.resolved()) {
            node.put("id", Long.valueOf(((NamedExpression) e).exprId().id()));
            node.put("name", ((NamedExpression) e).name());
            if (((NamedExpression) e).metadata().contains("spark.sessionWindow")) node.put("session_window", Boolean.TRUE);
        }
        if (e instanceof Attribute) return node;
        if (e instanceof RuntimeReplaceable && !(e instanceof InheritAnalysisRules)) {
            Expression replacement = inlined(((RuntimeReplaceable) e).replacement());
            if (isKnown(e, replacement, e.children())) return expression(replacement);
        }
        if (e instanceof PythonUDF && ((PythonUDF) e).name().startsWith(STANDIN)) {
            String[] parts = ((PythonUDF) e).name().split(":", 3);
            node.put("expression", parts[1]);
            node.put("sql", parts[2]);
        } else if (e instanceof Literal) {
            node.put("sql", e.sql());
        } else if (!printedByPython.contains(simpleName(e))) {
            String sql = templates.of(e);
            if (sql == null && e instanceof RuntimeReplaceable) return expression(((RuntimeReplaceable) e).replacement());
            node.put("sql", sql);
        }
        node.put("function", e.prettyName());
        node.put("children", values(e.children()));
        node.put("fields", fields(e, e.children()));
        if (e instanceof PlanExpression) node.put("plan", operator((LogicalPlan) ((PlanExpression) e).plan()));
        if (e instanceof GetStructField) node.put("field", ((GetStructField) e).extractFieldName());
        if (e instanceof GetArrayStructFields) node.put("field", ((GetArrayStructFields) e).field().name());
        if (e instanceof PivotFirst) node.put("pivot_values", pivotValues((PivotFirst) e));
        return node;
    }

    private List pivotValues(PivotFirst e) {
        List values = new ArrayList();
        for (Iterator i = e.pivotColumnValues().iterator(); i.hasNext();) {
            values.add(expression(Literal$.MODULE$.create(i.next(), e.pivotColumn().dataType())));
        }
        return values;
    }

    /** The constructor's parameters, children aside. */
    private Map fields(Product node, Seq children) {
        Map map = new LinkedHashMap();
        for (int i = 0; i < node.productArity(); i++) {
            Object value = node.productElement(i);
            if (!(value instanceof LogicalPlan) && !children.contains(value) && !children.equals(value)) {
                map.put(node.productElementName(i), value(value));
            }
        }
        return map;
    }

    private List values(scala.collection.Iterable items) {
        List list = new ArrayList();
        for (Iterator i = items.iterator(); i.hasNext();) list.add(value(i.next()));
        return list;
    }

    private Object value(Object o) {
        if (o instanceof Option) return ((Option) o).isEmpty() ? null : value(((Option) o).get());
        if (o instanceof Expression) return expression((Expression) o);
        if (o instanceof LogicalPlan) return operator((LogicalPlan) o);
        if (o instanceof DataType) return SqlTemplates.typeName((DataType) o);
        if (o instanceof scala.collection.Map) return entries((scala.collection.Map) o);
        if (o instanceof scala.collection.Iterable) return values((scala.collection.Iterable) o);
        if (o instanceof ExprId) return Long.valueOf(((ExprId) o).id());
        if (o instanceof CatalogTable) return ((CatalogTable) o).identifier().unquotedString();
        if (o instanceof JoinType && ((Product) o).productArity() > 0) {
            Map join = fields((Product) o, seq(new ArrayList()));
            join.put("kind", simpleName(o));
            return join;
        }
        if (o == null || o instanceof Boolean || o instanceof Number || o instanceof String) return o;
        return o instanceof Product && ((Product) o).productArity() == 0 ? simpleName(o) : String.valueOf(o);
    }

    private static Map entries(scala.collection.Map map) {
        Map entries = new LinkedHashMap();
        for (Iterator i = map.iterator(); i.hasNext();) {
            Tuple2 entry = (Tuple2) i.next();
            entries.put(String.valueOf(entry._1()), String.valueOf(entry._2()));
        }
        return entries;
    }

    private static String simpleName(Object o) {
        return o.getClass().getSimpleName().replace("$", "");
    }

    private static Seq seq(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    private static String json(Object data) throws Exception {
        return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(data);
    }
}
