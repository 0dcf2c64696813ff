import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.*;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractPartialFunction;

/**
 * Expressions as SQL with holes for their children, and the proof that the SQL says the same: Spark prints many functions for
 * people, leaving out options, so each text is parsed and resolved again and must give the expression it came from.
 */
public class SqlTemplates {
    /** The answers, for each function and types of arguments. */
    private static final Map FAITHFUL = new ConcurrentHashMap();

    private final SparkSession session;

    public SqlTemplates(SparkSession session) {
        this.session = session;
    }

    /** The SQL of an expression with holes for its children, or null where Spark does not parse that back to the same. */
    public String of(final Expression e) {
        return (String) asInSession(new AbstractFunction0() {
            public Object apply() {
                return faithful(e);
            }
        });
    }

    /** Parsing and resolving follow the settings of this session, whichever one is active in this thread. */
    private Object asInSession(AbstractFunction0 work) {
        return SQLConf$.MODULE$.withExistingConf(session.sessionState().conf(), work);
    }

    private String faithful(Expression e) {
        String sql = null;
        for (int attempt = 0; attempt < 2; attempt++) {
            try {
                Seq holes = holes(e.children(), attempt == 1);
                Expression hollow = holes.isEmpty() ? e : (Expression) e.withNewChildren(holes);
                if (sql == null) sql = sql(hollow);
                // A lambda leaves no hole, so what takes one cannot be asked; and it hides nothing.
                if (e instanceof HigherOrderFunction || isFaithful(hollow, sql(hollow), holes)) return sql;
                if (!hollow.containsTag(FunctionRegistry$.MODULE$.FUNC_ALIAS())) continue;
                // The name by which it was called can be that of a function with other arguments.
                hollow.unsetTagValue(FunctionRegistry$.MODULE$.FUNC_ALIAS());
                if (isFaithful(hollow, sql(hollow), holes)) return sql(hollow);
            } catch (Throwable bound) {
                // It cannot live without its own children.
            }
        }
        return null;
    }

    /** The same for a function with a replacement: the replacement must come out the same, over the same arguments. */
    public String of(final InheritAnalysisRules function, final Seq arguments) {
        return (String) asInSession(new AbstractFunction0() {
            public Object apply() {
                return faithful(function, arguments);
            }
        });
    }

    private String faithful(InheritAnalysisRules function, Seq arguments) {
        for (int attempt = 0; attempt < 4; attempt++) {
            try {
                Seq holes = holes(arguments, attempt % 2 == 1);
                Expression replacement = (Expression) function.child().transform(new Hollowing(arguments, holes));
                if (isFaithful(replacement, sql(function, texts(holes), attempt >= 2), holes)) {
                    return sql(function, holeNames(arguments.size()), attempt >= 2);
                }
            } catch (Throwable bound) {
                // As above.
            }
        }
        return null;
    }

    private static String sql(InheritAnalysisRules function, Seq arguments, boolean plainCall) {
        if (!plainCall) return function.makeSQLString(arguments);
        return ((Expression) function).prettyName() + "(" + arguments.mkString(", ") + ")";
    }

    private static Seq texts(Seq expressions) {
        List texts = new ArrayList();
        for (Iterator i = expressions.iterator(); i.hasNext();) texts.add(((Expression) i.next()).sql());
        return seq(texts);
    }

    private static String sql(Expression e) {
        return e instanceof AggregateFunction ? ((AggregateFunction) e).sql(false) : e.sql();
    }

    private boolean isFaithful(Expression printed, String sql, Seq holes) {
        if (!printed.deterministic()) return true;  // A random function has a seed that it does not show.
        Boolean ansi = Boolean.valueOf(session.sessionState().conf().ansiEnabled());
        Object key = Arrays.asList(new Object[] {printed.canonicalized(), sql, ansi});
        if (!FAITHFUL.containsKey(key)) FAITHFUL.put(key, Boolean.valueOf(parsesTo(sql, holes, printed)));
        return ((Boolean) FAITHFUL.get(key)).booleanValue();
    }

    public static class Hollowing extends AbstractPartialFunction {
        private final Seq from;
        private final Seq to;
        public Hollowing(Seq from, Seq to) {
            this.from = from;
            this.to = to;
        }
        private Object hole(Object e) {
            for (int i = 0; i < from.size(); i++) {
                if (((Expression) from.apply(i)).canonicalized().equals(((Expression) e).canonicalized())) return to.apply(i);
            }
            return null;
        }
        public boolean isDefinedAt(Object e) {
            return hole(e) != null;
        }
        public Object applyOrElse(Object e, Function1 otherwise) {
            Object hole = hole(e);
            return hole != null ? hole : otherwise.apply(e);
        }
    }

    private boolean parsesTo(String sql, Seq holes, Expression wanted) {
        try {
            List columns = new ArrayList();
            for (Iterator i = holes.iterator(); i.hasNext();) {
                Object hole = i.next();
                if (hole instanceof Attribute && !columns.contains(hole)) columns.add(hole);
            }
            LogicalPlan relation = new LocalRelation(seq(columns), seq(new ArrayList()), false, Option.empty());
            List list = new ArrayList();
            list.add(new UnresolvedAlias(parsed(sql), Option.empty()));
            LogicalPlan plan = session.sessionState().analyzer().execute(new Project(seq(list), relation));
            return contains(plan, wanted);
        } catch (Throwable refused) {
            return false;
        }
    }

    private Expression parsed(String sql) throws Exception {
        return (Expression) session.sessionState().sqlParser().parseExpression(sql);
    }

    private boolean contains(LogicalPlan plan, final Expression wanted) {
        final boolean[] found = {false};
        final Expression canonical = wanted.canonicalized();
        plan.transformAllExpressions(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object e) {
                return false;
            }
            public Object applyOrElse(Object e, Function1 otherwise) {
                Expression it = (Expression) e;
                if (it.resolved() && typeName(it.dataType()).equals(typeName(wanted.dataType()))
                    && it.canonicalized().equals(canonical)) found[0] = true;
                return otherwise.apply(e);
            }
        });
        return found[0];
    }

    /** A column for each child, the same for equal children. */
    private Seq holes(Seq children, boolean keepConstants) throws Exception {
        // A constant stays where the function insists on one.
        Map made = new HashMap();
        List holes = new ArrayList();
        for (int i = 0; i < children.size(); i++) {
            Expression child = (Expression) children.apply(i);
            Object key = child.canonicalized();
            if (keepConstants && child.foldable()) {
                made.put(key, child instanceof Literal && child.sql().startsWith("CAST(NULL") ? parsed(child.sql()) : child);
            } else if (!made.containsKey(key)) {
                made.put(key, hole(i, child));
            }
            holes.add(made.get(key));
        }
        return seq(holes);
    }

    private static Attribute hole(int number, Expression child) {
        // Always the same numbers, so that the same question is recognised when it comes again.
        ExprId id = new ExprId(number, new UUID(0, 0));
        return new AttributeReference("{" + number + "}", child.dataType(), child.nullable(), Metadata.empty(), id, seq(new ArrayList()));
    }

    public static Seq holeNames(int count) {
        List names = new ArrayList();
        for (int i = 0; i < count; i++) names.add("`{" + i + "}`");
        return seq(names);
    }

    /** A type as DDL; only Spark's long form quotes the names of fields. */
    public static String typeName(DataType type) {
        return isPlain(type) ? type.catalogString() : type.sql();
    }

    private static boolean isPlain(DataType type) {
        if (type instanceof ArrayType) return isPlain(((ArrayType) type).elementType());
        if (type instanceof MapType) return isPlain(((MapType) type).keyType()) && isPlain(((MapType) type).valueType());
        if (!(type instanceof StructType)) return true;
        StructField[] all = ((StructType) type).fields();
        for (int i = 0; i < all.length; i++) {
            if (!all[i].name().matches("[A-Za-z_][A-Za-z0-9_]*") || !isPlain(all[i].dataType())) return false;
        }
        return true;
    }

    private static Seq seq(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }
}
