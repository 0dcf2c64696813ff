import java.lang.reflect.*;
import java.util.*;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets Python answer queries from views. As the last rule of a session's normalization it sees the analyzed plan of every query
 * before it is optimized, and of nothing else: what DataFrames and views are made of stays as users wrote it. Compiled at run
 * time by Janino; so this is Java without lambdas and with erased generics.
 */
public class AnsweredQueries extends Rule {
    /** Parts of one query that Python is asked about, at most. */
    private static final int MOST_QUESTIONS = 8;

    /** What Python answers where it cannot read a plan, but may be able to read a part of it. */
    private static final String ASK_OF_PARTS = "parts";

    private static final List CONSTANT = Arrays.asList(new Object[] {"LocalRelation", "OneRowRelation", "Range"});
    private static final TreeNodeTag PLAIN = new TreeNodeTag("nabla.plain");

    private final SparkSession session;
    private final Function marks;
    private volatile BiFunction answer;

    /** `marks` gives the mark of a View of Spark that stands for a stored table as it is now, or null. */
    public AnsweredQueries(SparkSession session, Function marks) throws Exception {
        this.session = session;
        this.marks = marks;
        Object state = session.sessionState();
        Field rules = state.getClass().getDeclaredField("planNormalizationRules");
        rules.setAccessible(true);
        List all = new ArrayList(CollectionConverters.asJava((Seq) rules.get(state)));
        all.add(this);
        rules.set(state, CollectionConverters.asScala(all).toSeq());
    }

    /** `answer` gets a plan and the marks of the tables that it reads, and gives a plan with the same columns, or null. */
    public void answerWith(BiFunction answer) {
        this.answer = answer;
    }

    /** Keep a plan, and whatever is made from it, from being answered. */
    public static void keepPlain(LogicalPlan plan) {
        plan.setTagValue(PLAIN, Boolean.TRUE);
    }

    public TreeNode apply(TreeNode tree) {
        LogicalPlan plan = (LogicalPlan) tree;
        BiFunction answer = this.answer;
        if (answer == null || plan instanceof Command || plan.isStreaming()) return plan;
        try {
            if (isPlain(plan) || !readsNames(plan) || usesCache(plan)) return plan;
            return rewrite(plan, answer, new int[] {MOST_QUESTIONS});
        } catch (Exception e) {
            LoggerFactory.getLogger("nabla").warn("a query is run over its tables, since views cannot be looked at", e);
            return plan;
        }
    }

    // ---------------------------------------------------------------- what may be answered

    private boolean isPlain(LogicalPlan plan) {
        if (plan.containsTag(PLAIN)) return true;
        for (Iterator i = plan.children().iterator(); i.hasNext();) {
            if (isPlain((LogicalPlan) i.next())) return true;
        }
        return false;
    }

    private boolean readsNames(LogicalPlan plan) {
        if (plan instanceof View && marks.apply(plan) != null) return true;
        for (Iterator i = plan.subqueries().iterator(); i.hasNext();) if (readsNames((LogicalPlan) i.next())) return true;
        for (Iterator i = plan.children().iterator(); i.hasNext();) if (readsNames((LogicalPlan) i.next())) return true;
        return false;
    }

    /** Whether a part of the plan is kept in memory: that is read rather than a view. */
    private boolean usesCache(LogicalPlan plan) throws Exception {
        CacheManager cache = session.sharedState().cacheManager();
        if (cache.isEmpty()) return false;
        Method[] methods = CacheManager.class.getMethods();
        for (int i = 0; i < methods.length; i++) {
            Class[] types = methods[i].getParameterTypes();
            if (!methods[i].getName().equals("useCachedData")) continue;
            if (types.length == 1) return methods[i].invoke(cache, new Object[] {plan}) != plan;
            if (types[1] != scala.Function1.class) continue;
            Object all = CacheManager.class.getMethod("useCachedData$default$2", new Class[0]).invoke(cache, new Object[0]);
            return !methods[i].invoke(cache, new Object[] {plan, all}).equals(plan);
        }
        return true;
    }

    /**
     * The marks of the stored tables that a plan reads, with a zero after each name and mark. Null if it reads anything else, or
     * has a part that only the plan around it explains.
     */
    private String tables(LogicalPlan plan) {
        Map found = new TreeMap();
        Set defined = new HashSet();
        Set used = new HashSet();
        if (!collect(plan, found, defined, used) || found.isEmpty() || !defined.containsAll(used)) return null;
        StringBuilder text = new StringBuilder();
        for (Object name : found.keySet()) text.append(name).append('\0').append(found.get(name)).append('\0');
        return text.toString();
    }

    private boolean collect(LogicalPlan plan, Map found, Set defined, Set used) {
        if (plan instanceof View) {
            Object mark = marks.apply(plan);
            if (mark != null) {
                found.put(((View) plan).desc().identifier().table().toLowerCase(Locale.ROOT), mark);
                return true;
            }
        }
        if (plan instanceof CTERelationDef) defined.add(Long.valueOf(((CTERelationDef) plan).id()));
        if (plan instanceof CTERelationRef) return used.add(Long.valueOf(((CTERelationRef) plan).cteId())) || true;
        for (Iterator i = plan.subqueries().iterator(); i.hasNext();) {
            if (!collect((LogicalPlan) i.next(), found, defined, used)) return false;
        }
        for (Iterator i = plan.children().iterator(); i.hasNext();) {
            if (!collect((LogicalPlan) i.next(), found, defined, used)) return false;
        }
        return !plan.children().isEmpty() || CONSTANT.contains(plan.getClass().getSimpleName().replace("$", ""));
    }

    /** Whether there is anything in a plan that a view may have computed already. */
    private boolean computes(LogicalPlan plan) {
        if (plan instanceof Aggregate || plan instanceof Join || plan instanceof Filter || plan instanceof Distinct) return true;
        if (plan instanceof View && marks.apply(plan) != null) return false;
        for (Iterator i = plan.subqueries().iterator(); i.hasNext();) if (computes((LogicalPlan) i.next())) return true;
        for (Iterator i = plan.children().iterator(); i.hasNext();) if (computes((LogicalPlan) i.next())) return true;
        return false;
    }

    // ---------------------------------------------------------------- answering

    private LogicalPlan rewrite(LogicalPlan plan, BiFunction answer, int[] left) throws Exception {
        if (!computes(plan) || left[0] <= 0) return plan;
        String tables = tables(plan);
        if (tables != null) {
            left[0]--;
            Object found = answer.apply(plan, tables);
            if (found instanceof LogicalPlan) return renamed((LogicalPlan) found, plan);
            if (!ASK_OF_PARTS.equals(found)) return plan;
        }
        List inner = new ArrayList();
        boolean changed = false;
        for (Iterator i = plan.children().iterator(); i.hasNext();) {
            LogicalPlan child = (LogicalPlan) i.next();
            LogicalPlan now = plan instanceof WithCTE ? child : rewrite(child, answer, left);
            changed |= now != child;
            inner.add(now);
        }
        return changed ? (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(inner).toSeq()) : plan;
    }

    /** The plan with its columns as those of another one: the rest of the query knows them by their numbers. */
    private LogicalPlan renamed(LogicalPlan plan, LogicalPlan like) throws Exception {
        List columns = new ArrayList();
        for (int i = 0; i < like.output().size(); i++) {
            Attribute its = (Attribute) like.output().apply(i);
            Attribute own = (Attribute) plan.output().apply(i);
            Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
            columns.add(new Alias(own, its.name(), its.exprId(), its.qualifier(), Option.apply(its.metadata()), none));
        }
        return new Project(CollectionConverters.asScala(columns).toSeq(), named(plan, null));
    }

    /** The plan with the name of the table or view at each scan of files, for EXPLAIN. */
    private LogicalPlan named(LogicalPlan plan, CatalogTable table) throws Exception {
        if (plan instanceof View) table = named(((View) plan).desc());
        if (table != null && plan.getClass().getSimpleName().equals("LogicalRelation")) {
            return (LogicalPlan) plan.makeCopy(parts(plan, "catalogTable", Option.apply(table)));
        }
        List inner = new ArrayList();
        for (Iterator i = plan.children().iterator(); i.hasNext();) inner.add(named((LogicalPlan) i.next(), table));
        return inner.isEmpty() ? plan : (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(inner).toSeq());
    }

    /** What the name of the temporary view that an answer reads begins with is what people know it by. */
    private CatalogTable named(CatalogTable view) throws Exception {
        String name = view.identifier().table();
        int end = name.lastIndexOf(" (");
        TableIdentifier own = new TableIdentifier(end < 0 ? name : name.substring(0, end));
        return (CatalogTable) CatalogTable.class.getConstructors()[0].newInstance(parts(view, "identifier", own));
    }

    private static Object[] parts(Product whole, String field, Object value) {
        Object[] parts = new Object[whole.productArity()];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = whole.productElementName(i).equals(field) ? value : whole.productElement(i);
        }
        return parts;
    }
}
